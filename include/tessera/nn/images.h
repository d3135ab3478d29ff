// SPDX-License-Identifier: Apache-2.0
// All layers over images [n, c, h, w].
#pragma once

#include "tessera/nn/batch_norm.h"
#include "tessera/nn/convolution.h"
#include "tessera/nn/pools.h"
