// SPDX-License-Identifier: Apache-2.0
// All layers. Their parameters are named as PyTorch and Hugging Face name them.
#pragma once

#include "tessera/nn/activation.h"
#include "tessera/nn/attention.h"
#include "tessera/nn/containers.h"
#include "tessera/nn/distances.h"
#include "tessera/nn/embedding.h"
#include "tessera/nn/linear.h"
#include "tessera/nn/losses.h"
#include "tessera/nn/mlp.h"
#include "tessera/nn/module.h"
#include "tessera/nn/moe.h"
#include "tessera/nn/normalization.h"
#include "tessera/nn/recurrent/cells.h"
#include "tessera/nn/recurrent/recurrent.h"
#include "tessera/nn/rotary.h"
#include "tessera/nn/shaping.h"
#include "tessera/nn/transformer/decoder.h"
#include "tessera/nn/transformer/encoder.h"
#include "tessera/nn/transformer/transformer.h"
