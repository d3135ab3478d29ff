// SPDX-License-Identifier: Apache-2.0
// --gradient_checkpointing.
#pragma once

#include <cstdint>
#include <optional>

#include "tessera/nn/models/model.h"

namespace tessera::trainer {

/// From now on, the values inside of each of the first `count` repeated blocks (nullopt: of all) are computed again in the
/// backward pass instead of being kept. Only in training mode. The values of the first blocks are kept for the longest
/// time. Error if the model has no block.
void checkpoint_blocks(nn::PretrainedModel& model, std::optional<std::int64_t> count = std::nullopt);

}  // namespace tessera::trainer
