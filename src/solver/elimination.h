// SPDX-License-Identifier: Apache-2.0
// Exact minimization over some variables of a model while the others keep their choices: dynamic programming along an
// elimination order, which is a tree decomposition.
#pragma once

#include <vector>

#include "graph/model.h"
#include "interaction.h"

namespace tessera::solver {

class Elimination {
 public:
  /// Where a table would have more than `largest` entries, a variable with many neighbours is held: it keeps its
  /// choice, as those outside of `variables` do. `places` must be empty, and is so again afterwards.
  Elimination(const Model& model, const std::vector<int>& variables, Places& places, std::size_t largest,
              std::uint64_t seed = 0);

  /// The variables that are held though they were asked for.
  [[nodiscard]] const std::vector<int>& held() const { return held_; }
  /// The variables that `minimize` sets.
  [[nodiscard]] const std::vector<int>& free() const { return free_; }
  /// Entries of tables that one call of `minimize` reads.
  [[nodiscard]] std::int64_t work() const { return work_; }

  /// Sets choices[v] of every variable of free() so that the sum of `costs` (laid out as Model::cost) and of the edges
  /// of these variables is least; `choices` holds the other ends.
  void minimize(const std::vector<double>& costs, Choices& choices);

 private:
  // The costs of pairs, or the table of an earlier step, as a function of the step's variable and its scope.
  struct Factor {
    const double* matrix = nullptr;    // of an edge; null: the table of a step
    std::size_t table = 0;             // its offset in tables_
    std::vector<std::size_t> strides;  // per variable of the scope
  };
  struct Step {
    int variable = 0;
    std::vector<int> scope;         // variables that are eliminated later, the nearest first
    std::vector<int> outside;       // edges to variables that keep their choices
    std::vector<Factor> factors;    // that depend on the scope
    std::vector<Factor> constants;  // that depend on the variable alone
    std::size_t table = 0;          // offset of the least costs over `scope`, its first variable innermost
    std::size_t entries = 1;
    std::size_t count = 0;  // choices of the variable
  };
  void add_edges(Step& step, const Places& rank, int mine);
  static void add_factor(Step& step, Factor factor);
  void add_tables(Step& step, const std::vector<std::size_t>& children);
  void fill_table(const Step& step, const std::vector<double>& costs, const Choices& choices);
  void start_row(const Step& step, const std::vector<double>& costs, const Choices& choices);
  [[nodiscard]] const double* start_of(const Factor& factor) const {
    return factor.matrix != nullptr ? factor.matrix : tables_.data() + factor.table;
  }

  const Model& model_;
  std::vector<int> free_;
  std::vector<int> held_;
  std::vector<Step> steps_;
  std::vector<double> tables_;
  std::vector<double> row_;
  std::vector<double> sum_;
  std::vector<const double*> rows_;
  std::vector<std::size_t> index_;
  std::int64_t work_ = 0;
};

}  // namespace tessera::solver
