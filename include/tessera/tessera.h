// SPDX-License-Identifier: Apache-2.0
// Everything a training program needs.
#pragma once

#include "tessera/checkpoint/save.h"
#include "tessera/frontend/compile/compiled_function.h"
#include "tessera/frontend/execution/rendezvous.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tensor/tensor.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/ir/text.h"
#include "tessera/nn/images.h"
#include "tessera/nn/initializers.h"
#include "tessera/nn/layers.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/nn/models/llama.h"
#include "tessera/nn/models/mixtral.h"
#include "tessera/nn/models/registry.h"
#include "tessera/optim/optimizer.h"
#include "tessera/optim/schedule.h"
#include "tessera/runtime/metrics/metrics.h"
