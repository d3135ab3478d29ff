// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "graph/model.h"

namespace tessera::solver {

/// Lagrange multipliers: the price of a byte at each point of time.
class Prices {
 public:
  explicit Prices(int points) : at_(static_cast<std::size_t>(points), 0), before_(at_.size() + 1, 0) {}
  void set(std::vector<double> prices);
  [[nodiscard]] const std::vector<double>& at() const { return at_; }
  /// The price of a byte during the points [begin, end).
  [[nodiscard]] double of(int begin, int end) const {
    return before_[static_cast<std::size_t>(end)] - before_[static_cast<std::size_t>(begin)];
  }

 private:
  std::vector<double> at_;
  std::vector<double> before_;
};

}  // namespace tessera::solver
