// SPDX-License-Identifier: Apache-2.0
// The reduced problem in flat arrays, as the searches read it. Costs are doubles: sums are exact below 2^53.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::solver {

/// The cost of what is forbidden. Sums of many of these stay finite.
inline constexpr double kNever = 1e30;
inline bool is_never(double cost) { return cost >= kNever / 2; }

struct ModelEdge {
  int a = 0;
  int b = 0;
  std::size_t ab = 0;  // offset of the matrix [a, b] in Model::matrices
  std::size_t ba = 0;  // of its transpose
};

struct Model {
  std::vector<int> size;            // choices of each variable
  std::vector<std::size_t> offset;  // of its first choice in `cost` and `usage`
  std::vector<double> cost;
  std::vector<double> usage;  // bytes above the least of the variable
  std::vector<int> begin;     // alive at the points [begin, end)
  std::vector<int> end;
  std::vector<ModelEdge> edges;
  std::vector<std::vector<int>> edges_of;
  std::vector<double> matrices;
  /// Per point (a time at which no other set of nodes alive is larger): what the variables may use above their least.
  std::vector<double> room;
  std::vector<std::int64_t> time;  // of each point
  double constant = 0;             // cost of what the reductions have decided

  [[nodiscard]] int count() const { return static_cast<int>(size.size()); }
  [[nodiscard]] int points() const { return static_cast<int>(room.size()); }
  [[nodiscard]] std::span<const double> costs_of(int v) const {
    return {cost.data() + offset[static_cast<std::size_t>(v)],
            static_cast<std::size_t>(size[static_cast<std::size_t>(v)])};
  }
  [[nodiscard]] std::span<const double> usages_of(int v) const {
    return {usage.data() + offset[static_cast<std::size_t>(v)],
            static_cast<std::size_t>(size[static_cast<std::size_t>(v)])};
  }
  /// The costs of the pairs of choice `i` of `v` with each choice of the other end.
  [[nodiscard]] const double* row(const ModelEdge& edge, int v, int i) const {
    const bool is_a = edge.a == v;
    const int other = is_a ? edge.b : edge.a;
    return matrices.data() + (is_a ? edge.ab : edge.ba) +
           static_cast<std::size_t>(i) * static_cast<std::size_t>(size[static_cast<std::size_t>(other)]);
  }
};

/// A choice per variable of a Model.
using Choices = std::vector<int>;

}  // namespace tessera::solver
