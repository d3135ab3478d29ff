// SPDX-License-Identifier: Apache-2.0
// --gradient_checkpointing.
#pragma once

#include "tessera/nn/models/model.h"

namespace tessera::trainer {

/// From now on, the values inside of each repeated block are computed again in the backward pass instead of being kept.
/// Only in training mode. Error if the model has no repeated block.
void checkpoint_blocks(nn::PretrainedModel& model);

}  // namespace tessera::trainer
