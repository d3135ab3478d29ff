// SPDX-License-Identifier: Apache-2.0
// A lower bound on the cost of pairs: sequential tree-reweighted message passing (Kolmogorov, 2006). The bound never
// falls from one pass to the next while the costs stay.
#pragma once

#include <vector>

#include "graph/model.h"

namespace tessera::solver {

class MessagePassing {
 public:
  explicit MessagePassing(const Model& model);

  /// One pass to the last variable and one back. `costs` are laid out as Model::cost. Returns a bound on the least sum
  /// of `costs` and edges. Sets `choices` to an assignment that the messages suggest.
  double pass(const std::vector<double>& costs, Choices& choices);
  /// Entries of tables that a pass reads.
  [[nodiscard]] std::int64_t work() const { return work_; }

 private:
  double visit(int v, bool forward, const std::vector<double>& costs);
  void choose(int v, const std::vector<double>& costs, Choices& choices);
  double send(const ModelEdge& edge, int from, double share);

  const Model& model_;
  std::vector<std::size_t> offset_;  // of the message of each edge
  std::vector<double> messages_;     // over the choices of the end to which it was sent last
  std::vector<double> share_;        // per variable: the part of its costs that each edge gets
  std::vector<double> belief_;
  std::vector<double> buffer_;
  std::int64_t work_ = 0;
};

}  // namespace tessera::solver
