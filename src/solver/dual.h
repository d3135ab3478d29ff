// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "graph/prices.h"
#include "message_passing.h"

namespace tessera::solver {

/// The dual problem: prices for memory (Lagrange multipliers) and messages along edges. Every step gives a lower bound,
/// and an assignment that its prices suggest.
class Dual {
 public:
  explicit Dual(const Model& model);

  /// One pass of messages at the current prices, then a step of the prices towards the usage of the assignment.
  void step();
  /// One pass of messages at the best prices.
  void settle();
  [[nodiscard]] double bound() const { return bound_; }  // the largest so far
  /// The size of the costs: the bound or, while that is small, a part of the cost of using as little memory as possible.
  [[nodiscard]] double scale() const;
  /// True if the bound is above the cost of every allowed assignment, so that none keeps the limit.
  [[nodiscard]] bool proves_infeasible() const { return is_infeasible_; }
  /// True when more steps hardly raise it.
  [[nodiscard]] bool has_converged() const;
  [[nodiscard]] const Prices& best_prices() const { return best_; }
  [[nodiscard]] const Choices& choices() const { return choices_; }
  [[nodiscard]] std::int64_t work() const;  // of a step

 private:
  double pass();
  void charge();
  void move_prices(double bound);

  const Model& model_;
  MessagePassing messages_;
  Prices prices_;
  Prices best_;
  std::vector<double> costs_;  // with the prices
  Choices choices_;
  double reach_ = 0;
  double most_cost_ = 0;  // of an allowed assignment
  double bound_ = 0;
  double pace_ = 1;
  int steps_ = 0;
  int since_better_ = 0;
  bool is_infeasible_ = false;
};

}  // namespace tessera::solver
