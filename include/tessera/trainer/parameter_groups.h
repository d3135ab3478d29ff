// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tessera/nn/module.h"
#include "tessera/optim/optimizer.h"

namespace tessera::trainer {

/// The groups of Hugging Face's Trainer: weight decay does not apply to biases and norms. Embeddings, and the heads
/// that turn hidden states into logits, are groups with use_muon = false.
std::vector<optim::ParameterGroup> parameter_groups(const nn::Module& model, double weight_decay);

}  // namespace tessera::trainer
