// SPDX-License-Identifier: Apache-2.0
// Rematerialization within a memory budget: values that the forward pass would keep for the backward pass are computed
// again, or written to a file and read back, so that the program needs at most a given memory, at the least cost that
// the solver finds.
#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <future>
#include <optional>

#include "rematerialize/recompute_problem.h"
#include "tessera/base/text.h"
#include "tessera/lowering/lowering.h"
#include "tessera/ops/host_memory.h"
#include "tessera/ops/structural.h"
#include "tessera/passes/passes.h"
#include "tessera/passes/rewriter.h"
#include "tessera/solver/solve.h"

namespace tessera {
namespace {

constexpr std::int64_t kSmallestShare = 4096;  // of the arena: smaller values are kept
// See recompute_problem(). The problem of the largest one comes first: it keeps the fewest values, so that its solution
// often proves that the others have no better one.
constexpr int kStrides[] = {4, 2, 1};
constexpr int kFirstTry = 4;  // part of the solver's work that shows whether a graph has a better solution than another
constexpr int kCorrections = 3;  // of the modelled by the planned memory

// Rewrites the entry computation such that late readers of some values read copies that are made again.
class RecomputeRewriter {
 public:
  RecomputeRewriter(const Program& program, const Schedule& schedule, const std::vector<LiveValue>& values,
                    const RecomputeProblem& graph, const Recomputed& recomputed)
      : computation_(program.entry_computation()),
        access_(schedule.access),
        values_(values),
        graph_(graph),
        recomputed_(recomputed),
        step_of_(computation_.instructions.size(), -1),
        value_of_(computation_.instructions.size(), -1) {
    for (int t = 0; t < isize(schedule.steps); ++t)
      for (const Id id : at(schedule.steps, t).instructions) at(step_of_, id) = t;
    at(step_of_, computation_.root) = std::max(at(step_of_, computation_.root), isize(schedule.steps));
    for (int v = 0; v < isize(values); ++v)
      if (is_made_again(at(recomputed.in_gap, v)) || is_made_again(at(recomputed.in_tail, v)))
        at(value_of_, at(values, v).id) = v;
  }

  void rewrite(ComputationRewriter& rewriter) {
    rewriter_ = &rewriter;
    for (Id id = 0; id < computation_.size(); ++id) {
      if (computation_[id].op->role == Role::kParameter) continue;
      Instruction made = rewriter.translated(id);
      const int step = at(step_of_, id);
      for (std::size_t i = 0; i < made.operands.size() && step >= 0; ++i)
        made.operands[i] = read(computation_[id].operands[i], step).id;
      const Value value = rewriter.builder().append(std::move(made));
      rewriter.replace(id, value);
      if (const int v = at(value_of_, id); v >= 0 && is_in_file(v))
        in_file_[v] = ops::move_to_host(leaf_of(v, value)).id;
    }
  }

 private:
  enum class Copy : std::uint8_t { kFirst, kInGap, kInTail };

  // The copy of the value that a reader in step `time` reads.
  [[nodiscard]] Copy copy_at(int v, int time) const {
    const LiveValue& value = at(values_, v);
    if (is_made_again(at(recomputed_.in_tail, v)) && time > value.last_read) return Copy::kInTail;
    return is_made_again(at(recomputed_.in_gap, v)) && time > value.gap_begin ? Copy::kInGap : Copy::kFirst;
  }
  [[nodiscard]] bool is_in_file(int v) const {
    return at(recomputed_.in_gap, v) == SpanStrategy::kInFile || at(recomputed_.in_tail, v) == SpanStrategy::kInFile;
  }
  // The leaf of an instruction's result that is the live value.
  [[nodiscard]] Value leaf_of(int v, Value result) const {
    return result.type().is_tuple() ? ops::get_tuple_element(result, at(values_, v).leaf) : result;
  }

  // The value as a reader in step `time` reads it, made again if necessary. Instructions that run no code, such as
  // transposes and tuples, give the data of other values.
  Value read(Id id, int time) {
    if (at(value_of_, id) >= 0) return copy_of(id, time);
    if (at(step_of_, id) >= 0) return rewriter_->mapped(id);
    const auto key = std::pair(id, time);
    if (const auto found = read_.find(key); found != read_.end()) return rewriter_->builder().value(found->second);
    const Value value = computation_[id].type.is_array() && is_same_data(id) ? source_of(id, time) : view_of(id, time);
    read_.emplace(key, value.id);
    return value;
  }

  // Whether the value is a leaf of another one, through tuples, barriers, or loops that do not change it.
  [[nodiscard]] bool is_same_data(Id id) const {
    const Access& from = at(access_, id).front();
    if (from.source < 0 || from.source == id || from.view || at(value_of_, from.source) < 0) return false;
    const Type& type = computation_[from.source].type;
    if (type.is_array()) return type == computation_[id].type;
    return type.leaf_count() == isize(type.elements()) &&
           at(type.elements(), from.source_leaf) == computation_[id].type;
  }

  Value source_of(Id id, int time) {
    const Access& from = at(access_, id).front();
    if (copy_at(at(value_of_, from.source), time) == Copy::kFirst) return rewriter_->mapped(id);
    const Value value = copy_of(from.source, time);
    return value.type().is_tuple() ? ops::get_tuple_element(value, from.source_leaf) : value;
  }

  Value view_of(Id id, int time) {
    std::vector<Id> operands;
    bool is_same = true;
    for (const Id operand : computation_[id].operands) {
      operands.push_back(read(operand, time).id);
      is_same &= operands.back() == rewriter_->mapped(operand).id;
    }
    if (is_same) return rewriter_->mapped(id);
    Instruction view = rewriter_->translated(id);
    view.operands = std::move(operands);
    return rewriter_->builder().append(std::move(view));
  }

  Value copy_of(Id id, int time) {
    const int v = at(value_of_, id);
    const Copy copy = copy_at(v, time);
    return copy == Copy::kFirst ? rewriter_->mapped(id) : made_again(v, copy);
  }

  Value made_again(int v, Copy copy) {
    const auto key = std::pair(v, copy);
    if (const auto found = made_.find(key); found != made_.end()) return rewriter_->builder().value(found->second);
    const SpanStrategy strategy = at(copy == Copy::kInGap ? recomputed_.in_gap : recomputed_.in_tail, v);
    const Value value = strategy == SpanStrategy::kInFile ? read_back(v) : computed_again(v, copy);
    made_[key] = value.id;
    return value;
  }

  // The live value from the file, with the other leaves of its instruction, which are small.
  Value read_back(int v) {
    const Value leaf = ops::move_to_device(rewriter_->builder().value(in_file_.at(v)));
    const Value first = rewriter_->mapped(at(values_, v).id);
    if (!first.type().is_tuple()) return leaf;
    std::vector<Value> leaves;
    for (int i = 0; i < first.type().leaf_count(); ++i)
      leaves.push_back(i == at(values_, v).leaf ? leaf : ops::get_tuple_element(first, i));
    return ops::tuple(rewriter_->builder(), leaves);
  }

  Value computed_again(int v, Copy copy) {
    const ValueChoices& choices = at(graph_.values, v);
    const int time = (copy == Copy::kInGap ? choices.gap : choices.tail).first;
    boost::unordered_flat_map<Id, Id> inner;
    for (const Id id : at(values_, v).instructions) {
      Instruction made = rewriter_->translated(id);
      for (std::size_t i = 0; i < made.operands.size(); ++i) {
        const Id operand = computation_[id].operands[i];
        const auto found = inner.find(operand);
        made.operands[i] = found != inner.end() ? found->second : read(operand, time).id;
      }
      made.control_predecessors.clear();
      inner[id] = rewriter_->builder().append(std::move(made)).id;
    }
    return rewriter_->builder().value(inner.at(at(values_, v).id));
  }

  const Computation& computation_;
  const std::vector<std::vector<Access>>& access_;
  const std::vector<LiveValue>& values_;
  const RecomputeProblem& graph_;
  const Recomputed& recomputed_;
  std::vector<int> step_of_;
  std::vector<int> value_of_;  // the live value that the instruction computes, if it is made again, or -1
  boost::unordered_flat_map<int, Id> in_file_;  // by live value
  boost::unordered_flat_map<std::pair<int, Copy>, Id> made_;
  boost::unordered_flat_map<std::pair<Id, int>, Id> read_;  // by id and time
  ComputationRewriter* rewriter_ = nullptr;
};

Program with_recomputed(const Program& program, const Schedule& schedule, const std::vector<LiveValue>& values,
                        const RecomputeProblem& graph, const Recomputed& recomputed) {
  RecomputeRewriter recomputing(program, schedule, values, graph, recomputed);
  const Computation* entry = &program.entry_computation();
  return remove_dead_code(rewrite_computations(
      program, [&](ComputationRewriter& rewriter) { recomputing.rewrite(rewriter); },
      [&](const Computation& computation) { return &computation == entry; }));
}

struct Candidate {
  Program program;
  double seconds = 0;  // of what is made again
  std::int64_t peak = 0;
};

class Planner {
 public:
  Planner(const Program& program, std::int64_t most_bytes, bool offload)
      : program_(program),
        offload_(offload),
        schedule_(make_schedule(program)),
        fixed_bytes_(schedule_->peak_bytes() - schedule_->arena_bytes),
        arena_limit_(std::max<std::int64_t>(0, most_bytes - fixed_bytes_)) {}

  Program run() {
    if (schedule_->arena_bytes <= arena_limit_) return program_;
    static const MachineModel kMachine = MachineModel::load("cpu-node");
    values_ = find_live_values(program_, *schedule_, kMachine, schedule_->arena_bytes / kSmallestShare);
    std::optional<Candidate> best;
    std::vector<Plan> all = plans();
    const bool some_fit = all.front().solution && fits(all.front().solution->peak);
    for (Plan& plan : all) {
      if (!plan.solution && some_fit) plan.solution = solve(plan.graph, arena_limit_, arena_limit_);
      if (!plan.solution) continue;
      Candidate found = candidate(plan.graph, *plan.solution);
      if (!best || is_better(found, *best)) best = std::move(found);
      if (fits(best->peak)) break;
    }
    if (best && best->peak < schedule_->arena_bytes) return std::move(best->program);
    return program_;
  }

 private:
  struct Plan {
    RecomputeProblem graph;
    std::optional<solver::Solution> solution{};  // absent: none that is better than that of another plan was found
  };

  [[nodiscard]] bool fits(std::int64_t peak) const { return peak <= arena_limit_; }
  // Whether the time and the peak are better than others: what fits is compared by time, the rest by peak.
  [[nodiscard]] bool is_better(double seconds, std::int64_t peak, double other_seconds, std::int64_t other_peak) const {
    if (fits(peak) != fits(other_peak)) return fits(peak);
    return fits(peak) ? seconds < other_seconds : peak < other_peak;
  }
  [[nodiscard]] bool is_better(const Candidate& one, const Candidate& other) const {
    return is_better(one.seconds, one.peak, other.seconds, other.peak);
  }

  // Raises the limit up to `highest` if no solution within it is found. `cutoff`: no solution that costs more is needed.
  static std::optional<solver::Solution> solve(const RecomputeProblem& graph, std::int64_t limit, std::int64_t highest,
                                               std::optional<std::int64_t> cutoff = {}) {
    solver::Budget budget = recompute_budget(graph);
    budget.cutoff = cutoff;
    if (cutoff) budget.work /= kFirstTry;
    auto solution = solver::solve_within(graph.problem, limit, budget, highest);
    if (!cutoff || !solution || solution->cost >= *cutoff) return solution;
    budget.work *= kFirstTry;
    return solver::solve_within(graph.problem, limit, budget, highest);
  }

  // If no selection keeps the limit, the solution of one graph says nothing about the others.
  void solve_together(std::vector<Plan>& plans) const {
    std::vector<std::future<std::optional<solver::Solution>>> running;
    for (const Plan& plan : plans)
      running.push_back(std::async([&] { return solve(plan.graph, arena_limit_, schedule_->arena_bytes); }));
    for (std::size_t i = 0; i < plans.size(); ++i) plans[i].solution = running[i].get();
  }
  // The solution of a graph bounds the cost of the next one.
  void solve_in_turn(std::vector<Plan>& plans) const {
    std::optional<std::int64_t> least_cost;  // of a solution within the limit
    for (Plan& plan : plans) {
      plan.solution = solve(plan.graph, arena_limit_, least_cost ? arena_limit_ : schedule_->arena_bytes, least_cost);
      if (plan.solution && fits(plan.solution->peak))
        least_cost = std::min(plan.solution->cost, least_cost.value_or(plan.solution->cost));
    }
  }

  // The plans of all strides, best first.
  std::vector<Plan> plans() {
    std::vector<Plan> out;
    for (const int stride : kStrides) out.push_back({recompute_problem(*schedule_, values_, stride, offload_)});
    if (arena_limit_ < solver::least_peak(out.front().graph.problem))
      solve_together(out);
    else
      solve_in_turn(out);
    std::stable_sort(out.begin(), out.end(), [&](const Plan& one, const Plan& other) {
      if (!one.solution || !other.solution) return one.solution && !other.solution;
      return is_better(static_cast<double>(one.solution->cost), one.solution->peak,
                       static_cast<double>(other.solution->cost), other.solution->peak);
    });
    return out;
  }

  // The modelled memory is that of the values; the plan of the arena may need a little more. So the limit of the problem
  // follows the difference.
  Candidate candidate(const RecomputeProblem& graph, const solver::Solution& first) {
    Candidate best = rewritten(graph, first);
    std::int64_t limit = arena_limit_;
    for (int i = 0; i < kCorrections && !fits(best.peak) && fits(first.peak); ++i) {
      limit -= best.peak - arena_limit_;
      const auto solution = solve(graph, limit, arena_limit_);
      if (!solution) break;
      Candidate found = rewritten(graph, *solution);
      if (!is_better(found, best)) break;
      best = std::move(found);
    }
    return best;
  }

  Candidate rewritten(const RecomputeProblem& graph, const solver::Solution& solution) {
    const Recomputed recomputed = recomputed_values(graph, values_, solution.choices);
    Candidate out;
    out.seconds = recomputed.seconds;
    out.program = with_recomputed(program_, *schedule_, values_, graph, recomputed);
    // A parameter that is read after its update cannot be updated in place: the result needs memory of its own.
    out.peak = make_schedule(out.program)->peak_bytes() - fixed_bytes_;
    return out;
  }

  const Program& program_;
  bool offload_;
  std::shared_ptr<const Schedule> schedule_;
  std::int64_t fixed_bytes_;  // outside of the arena
  std::int64_t arena_limit_;
  std::vector<LiveValue> values_;
};

}  // namespace

Program rematerialize(const Program& program, std::int64_t most_bytes, bool offload) {
  return Planner(program, most_bytes, offload).run();
}

}  // namespace tessera
