// SPDX-License-Identifier: Apache-2.0
// Everything a training program needs.
#pragma once

#include "tessera/checkpoint/save.h"
#include "tessera/frontend/compile/compiled_function.h"
#include "tessera/frontend/execution/rendezvous.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/sharding/meshes.h"
#include "tessera/frontend/sharding/placements.h"
#include "tessera/frontend/sharding/shard_map.h"
#include "tessera/frontend/sharding/sharded_tensor.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tensor/tensor.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/ir/text.h"
#include "tessera/nn/distribute.h"
#include "tessera/nn/images.h"
#include "tessera/nn/initializers.h"
#include "tessera/nn/layers.h"
#include "tessera/nn/models/bert.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/nn/models/llama.h"
#include "tessera/nn/models/mixtral.h"
#include "tessera/nn/models/registry.h"
#include "tessera/nn/models/resnet.h"
#include "tessera/nn/models/vit.h"
#include "tessera/optim/optimizer.h"
#include "tessera/optim/schedule.h"
#include "tessera/runtime/metrics/metrics.h"

/// `ts::Tensor`, `ts::zeros({2, 3})`.
namespace ts = tessera;
