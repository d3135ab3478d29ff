// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "dual.h"
#include "local_search.h"
#include "tessera/solver/solve.h"

namespace tessera::solver {

class Clock {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// The search for an assignment: first prices and messages, then two searches in rounds. What a round does depends
/// only on the rounds before it, so that the two may run in two threads or one after the other.
class SearchRounds {
 public:
  SearchRounds(const Model& model, const Budget& budget, const Clock& clock, std::int64_t work);
  /// Searches until the budget is used up. Afterwards, if no feasible assignment was found, another search begins with
  /// the least usages; it may exceed the budget by a fifth.
  void run();

  /// No assignment keeps the memory limit.
  [[nodiscard]] bool is_infeasible() const { return dual_.proves_infeasible(); }
  /// No assignment that keeps the memory limit costs less than the cutoff.
  [[nodiscard]] bool reaches_cutoff() const;
  [[nodiscard]] double bound() const { return dual_.bound(); }
  [[nodiscard]] std::int64_t work() const { return work_; }
  [[nodiscard]] const std::optional<Choices>& best() const { return best_; }
  /// An assignment that may be not feasible.
  [[nodiscard]] const Assignment& nearest() const { return searches_.front()->now(); }

 private:
  [[nodiscard]] std::optional<Choices> best_of_searches() const;
  [[nodiscard]] double progress() const;  // of the budget; 1: used up
  [[nodiscard]] bool is_proven() const;
  [[nodiscard]] bool is_fathomed() const { return is_infeasible() || reaches_cutoff(); }
  std::int64_t dual_steps(std::int64_t work, double until);
  std::int64_t search_steps(LocalSearch& search, std::int64_t work);
  void together(const std::function<std::int64_t()>& first, const std::function<std::int64_t()>& second);
  std::vector<Choices> candidates();
  void start_searches();
  void join();
  void run_rounds();
  void search_from_least_usages();

  const Model& model_;
  const Budget& budget_;
  const Clock& clock_;
  Dual dual_;
  std::vector<std::unique_ptr<LocalSearch>> searches_;
  std::optional<Choices> best_;
  std::int64_t work_;
  std::int64_t round_work_;
};

}  // namespace tessera::solver
