// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <random>

#include "elimination.h"
#include "graph/assignment.h"
#include "graph/prices.h"

namespace tessera::solver {

/// Improves an assignment: again and again frees a region of variables and finds their best choices exactly, at prices
/// for memory that rise until the region fits, or fall while it fits. What is not feasible costs a penalty that grows
/// until a feasible assignment is found.
class LocalSearch {
 public:
  LocalSearch(const Model& model, const Prices& prices, double penalty, Choices start, std::uint64_t seed);

  /// Minimizes the cost with prices over nearly all variables, several times. Returns the work done.
  std::int64_t descend();
  /// Tries one region. Returns the work done.
  std::int64_t step();
  /// Continues from another assignment.
  void restart(Choices choices);
  void set_prices(const Prices& prices) { prices_ = prices; }
  /// Tries the choices of `other`, alone and mixed with the present ones.
  void join(const Choices& other);

  /// The best feasible cost, or a value far above all costs that is less for fewer faults.
  [[nodiscard]] double current_value() const { return best_ ? best_cost_ : kNever + value(now_.score) * 1e6; }
  [[nodiscard]] const Assignment& now() const { return now_; }
  [[nodiscard]] const std::optional<Choices>& best() const { return best_; }  // the best feasible one
  [[nodiscard]] double best_cost() const { return best_cost_; }

 private:
  /// A kind of region. Every kind gets the same share of the work.
  struct Kind {
    int count = 0;  // variables; 0: all
    std::size_t largest = 0;
    bool is_enumerated = false;
    std::int64_t work = 0;
  };
  struct Trial;

  [[nodiscard]] double value(const Score& score) const {
    return score.cost + never_weight_ * score.forbidden + over_weight_ * score.over;
  }
  std::vector<int> region(int count);
  int seed_variable();
  int alive_at(int point);
  int companion(int v);
  void add_patch(int seed, std::size_t count, std::vector<int>& out);
  int below(std::size_t bound) { return static_cast<int>(random_() % bound); }

  std::int64_t enumerate_region();
  std::int64_t improve(const std::vector<int>& variables, std::size_t largest);
  void find_span(const std::vector<int>& free);
  void take_out(const std::vector<int>& free);
  void put_back(const std::vector<int>& free, const Score& before, const Score& after);
  void charge(const std::vector<int>& free, double scale);
  Score score_of(const std::vector<int>& free, int& worst);
  void add_changes(const std::vector<int>& free);
  void note_result();
  void find_faults();

  const Model& model_;
  Prices prices_;
  Assignment now_;
  std::optional<Choices> best_;
  double best_cost_ = 0;
  double never_weight_;
  double over_weight_;
  std::mt19937_64 random_;
  std::array<Kind, 9> kinds_;
  int steps_ = 0;

  // Scratch, as large as the model, so that a step costs only as much as its region.
  Places places_;
  std::vector<char> is_in_;                    // the region, and later its free variables
  std::vector<double> costs_;                  // with prices, of the free variables
  std::vector<double> rest_;                   // per point of the span: what the other variables use
  std::vector<double> change_;                 // per point: by how much the usage of the free variables changes
  std::vector<std::pair<int, double>> extra_;  // prices above the common ones
  std::vector<int> faults_;                    // variables of forbidden pairs
  int faults_of_ = -1;                         // the number of forbidden pairs when faults_ was made
  int worst_ = -1;                             // the point that is most above its room
  int from_ = 0;                               // the span: the points at which a free variable is alive
  int to_ = 0;
};

}  // namespace tessera::solver
