// SPDX-License-Identifier: Apache-2.0
// batch-norm-training, batch-norm-inference and batch-norm-grad. They occur in imported texts; models use smaller
// ops.
#pragma once

#include "tessera/ir/attributes.h"

namespace tessera {

struct BatchNormAttributes {
  double epsilon = 0;
  std::int64_t feature_index = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("epsilon", self.epsilon, Presence::kAlways);
    visit("feature_index", self.feature_index, Presence::kAlways);
  }
  friend bool operator==(const BatchNormAttributes&, const BatchNormAttributes&) = default;
};

}  // namespace tessera
