// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "graph/assignment.h"

namespace tessera::solver {

/// Exchanges the choices of many variables at once: one variable takes a choice of less usage, and its neighbours the
/// least expensive choices that this allows; then other variables take less expensive choices in the room that this
/// frees. Finds what no small region contains: one large value instead of many small ones.
class Exchange {
 public:
  explicit Exchange(const Model& model);

  /// Exchanges at each variable until none improves the feasible choices, or the work is done. Returns the work done, in
  /// entries of tables.
  std::int64_t improve(Choices& choices, std::int64_t work);

 private:
  /// The choices after `v` takes `choice`, if they are feasible and cost less; else none.
  Choices better(const Assignment& now, int v, int choice);
  bool force(int v, int choice);
  void refill(bool for_each_byte);
  bool take_better_choice(int v);
  [[nodiscard]] double cost_of(int v, int choice, int& forbidden) const;
  [[nodiscard]] double usage_of(int v, int choice) const;
  [[nodiscard]] bool fits() const;
  [[nodiscard]] bool has_room(int v, double more) const;
  void set(int v, int choice);

  const Model& model_;
  std::vector<int> flexible_;  // variables with choices of different usage
  std::int64_t work_ = 0;      // of an exchange, at most
  Choices choices_;
  std::vector<int> forced_;
  std::vector<double> use_;
  double cost_ = 0;
  int forbidden_ = 0;
};

}  // namespace tessera::solver
