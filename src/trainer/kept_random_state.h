// SPDX-License-Identifier: Apache-2.0
// Work between two updates that does not change the random numbers of the training.
#pragma once

#include "tessera/frontend/execution/step.h"

namespace tessera::trainer {

/// A scope for evaluations, predictions and samples of text. Each of their steps advances the random state, and their number
/// depends on the number of data shards. At the end of the scope, the random state is again what it was, so that the updates
/// draw the same numbers on every layout. Random ops that were recorded before the scope must be in a step that has ended.
class KeptRandomState {
 public:
  KeptRandomState() : state_(random_state()) {}
  ~KeptRandomState() { set_random_state(state_); }
  KeptRandomState(const KeptRandomState&) = delete;
  KeptRandomState& operator=(const KeptRandomState&) = delete;

 private:
  RandomState state_;
};

}  // namespace tessera::trainer
