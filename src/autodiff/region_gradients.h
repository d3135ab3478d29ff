// SPDX-License-Identifier: Apache-2.0
// The manual regions of the values of a computation under construction, for gradients that leave a region.
#pragma once

#include <vector>

#include "tessera/ir/builder.h"
#include "tessera/ops/manual_region.h"

namespace tessera::autodiff {

class RegionGradients {
 public:
  explicit RegionGradients(Builder& builder) : builder_(builder) {}
  /// `gradient` as a gradient of `value`. A region may read a value from outside without a border; then each device has
  /// a gradient of its own, and their sum leaves the region.
  Value for_value(Id value, Value gradient);

 private:
  void extend(Id last);

  Builder& builder_;
  std::vector<std::vector<AxisRef>> axes_;  // by value: the manual axes around it
  Mesh mesh_;                               // of the borders seen so far
  bool has_borders_ = false;
};

}  // namespace tessera::autodiff
