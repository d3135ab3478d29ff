// SPDX-License-Identifier: Apache-2.0
// Gathers the values of the next round of a loop while the current one computes:
//
//   while (i < n) { %g = all-gather(row i of %w); … %g … }
//     ->  %g0 = all-gather(row 0 of %w);
//         while (i < n - 1) { … %g …; %g = all-gather(row i + 1 of %w) };  the last round, after the loop: … %g …
//
// The last round follows the loop, because it has nothing to gather.
#include <algorithm>
#include <map>
#include <optional>

#include "tessera/lowering/lowering.h"
#include "tessera/ops/collectives.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tessera/passes/loop_state.h"
#include "tessera/passes/passes.h"

namespace tessera {
namespace {

/// A loop, and the all-gathers of its body that can run one round earlier.
struct Prefetched {
  ComputationId caller = -1;
  Id loop = -1;
  ComputationId condition = -1;
  ComputationId body = -1;
  CountedLoop counted;
  std::vector<Id> gathers;  // in order
};

class GatherFinder {
 public:
  GatherFinder(const Program& program, const std::vector<int>& nodes)
      : program_(program), nodes_(nodes), calls_(call_counts(program)) {}

  // The first loop with such gathers, innermost loops first.
  [[nodiscard]] std::optional<Prefetched> first() const {
    for (ComputationId c = 0; c < isize(program_.computations); ++c)
      for (Id id = 0; id < program_[c].size(); ++id) {
        if (program_[c][id].op->role != Role::kWhile) continue;
        auto found = prefetched(c, id);
        if (!found.gathers.empty()) return found;
      }
    return std::nullopt;
  }

 private:
  [[nodiscard]] Prefetched prefetched(ComputationId caller, Id id) const {
    const Instruction& loop = program_[caller][id];
    Prefetched out{caller, id, loop.called[0], loop.called[1], {}, {}};
    const Computation& body = program_[out.body];
    const auto counted = counted_loop(program_, program_[caller], loop);
    const bool fits = counted && counted->trips >= 2 && has_small_limit(program_[out.condition], *counted) &&
                      at(calls_, out.body) == 1 && at(calls_, out.condition) == 1 && reads_only_elements(body) &&
                      reads_only_elements(program_[out.condition]) && body[body.root].op->role == Role::kTuple &&
                      !has_control_edges(body);
    if (!fits) return out;
    out.counted = *counted;
    const auto early = known_before(body);
    const auto read = read_within(body);
    for (Id gather = 0; gather < body.size(); ++gather)
      if (at(early, gather) && at(read, gather) && leaves_node(body[gather])) out.gathers.push_back(gather);
    return out;
  }

  // Whether f64 represents the limit.
  static bool has_small_limit(const Computation& condition, const CountedLoop& loop) {
    constexpr std::int64_t kMost = std::int64_t{1} << 53;
    const std::int64_t limit = element_as_int(*known_constant(condition[loop.limit]), 0);
    return limit <= kMost && limit >= -kMost;
  }

  static bool has_control_edges(const Computation& body) {
    return std::any_of(body.instructions.begin(), body.instructions.end(),
                       [](const Instruction& instruction) { return !instruction.control_predecessors.empty(); });
  }

  [[nodiscard]] bool leaves_node(const Instruction& instruction) const {
    return instruction.op->collective == CollectiveKind::kAllGather &&
           !stays_on_nodes(attributes_as<CollectiveAttributes>(instruction.attributes), nodes_);
  }

  // Whether the op only selects or converts elements of a few values, so that it may run one round earlier.
  static bool is_selection(const Instruction& instruction) {
    const OpDef& op = *instruction.op;
    switch (op.role) {
      case Role::kConstant:
      case Role::kPartitionId:
      case Role::kTuple:
      case Role::kGetTupleElement:
      case Role::kCopy:
      case Role::kOptBarrier: return true;
      case Role::kCollective: return op.collective == CollectiveKind::kAllGather;
      case Role::kPlain:
        return !has_side_effect(instruction) && (op.elementwise || op.movement != Movement::kNone || op.takes_a_part);
      default: return false;
    }
  }

  // The values of a round that the previous round can compute at its start: selections from elements of the
  // state whose next value is such a selection itself, such as the counter and elements that do not change.
  static std::vector<bool> known_before(const Computation& body) {
    std::vector<bool> selected(body.instructions.size(), false);
    const auto of_operands = [&](const std::vector<bool>& known, const Instruction& instruction) {
      return std::all_of(instruction.operands.begin(), instruction.operands.end(),
                         [&](Id operand) { return at(known, operand); });
    };
    for (Id id = 0; id < body.size(); ++id)
      selected[static_cast<std::size_t>(id)] =
          state_element(body, id) ||
          (is_selection(body[id]) && body[id].op->role != Role::kCollective && of_operands(selected, body[id]));
    std::vector<bool> known(body.instructions.size(), false);
    for (Id id = 0; id < body.size(); ++id) {
      const auto element = state_element(body, id);
      known[static_cast<std::size_t>(id)] = element ? at(selected, at(body[body.root].operands, *element))
                                                    : is_selection(body[id]) && of_operands(known, body[id]);
    }
    return known;
  }

  // Whether another instruction than the root reads the value.
  static std::vector<bool> read_within(const Computation& body) {
    std::vector<bool> out(body.instructions.size(), false);
    for (Id id = 0; id < body.size(); ++id)
      if (id != body.root)
        for (const Id operand : body[id].operands) out[static_cast<std::size_t>(operand)] = true;
    return out;
  }

  const Program& program_;
  const std::vector<int>& nodes_;
  std::vector<int> calls_;
};

/// Rewrites the three computations of one loop. Their parameters already have the longer state.
class LoopShifter {
 public:
  LoopShifter(const Program& program, const Prefetched& loop)
      : program_(program), loop_(loop), body_(program[loop.body]), old_size_(isize(body_[body_.root].operands)) {}

  void run(ComputationRewriter& r) const {
    if (&r.from() == &program_[loop_.condition]) return shorten(r);
    if (&r.from() == &body_) return gather_for_next(r);
    std::vector<Value> results;
    for (Id id = 0; id < r.from().size(); ++id) {
      const Instruction& instruction = r.from()[id];
      if (id == loop_.loop) {
        results = run_loop(r);
        r.replace(id, ops::tuple(r.builder(), results));
      } else if (instruction.op->role == Role::kGetTupleElement && instruction.operands.front() == loop_.loop) {
        r.replace(id, at(results, attributes_as<IndexAttributes>(instruction.attributes).index));
      } else {
        r.keep(id);
      }
    }
  }

 private:
  void shorten(ComputationRewriter& r) const {
    for (Id id = 0; id < r.from().size(); ++id) {
      if (id != loop_.counted.limit) {
        r.keep(id);
        continue;
      }
      const auto limit = static_cast<double>(element_as_int(*known_constant(r.from()[id]), 0) - loop_.counted.step);
      r.replace(id, ops::constant(r.builder(), scalar_of(r.from()[id].type.dtype(), limit)));
    }
  }

  void gather_for_next(ComputationRewriter& r) const {
    const Value state = r.mapped(body_.parameters.front());
    for (std::size_t k = 0; k < loop_.gathers.size(); ++k)
      r.replace(loop_.gathers[k], ops::get_tuple_element(state, static_cast<int>(old_size_) + static_cast<int>(k)));
    for (Id id = 0; id < body_.size(); ++id)
      if (id != body_.root && !std::binary_search(loop_.gathers.begin(), loop_.gathers.end(), id)) r.keep(id);
    std::vector<Value> next = r.mapped(body_[body_.root].operands);
    const std::vector<Value> elements = next;
    append_gathers(r, elements, next);
    r.replace(body_.root, ops::tuple(r.builder(), next));
  }

  // Appends the gathers of the round that begins with these elements of the state.
  void append_gathers(ComputationRewriter& r, const std::vector<Value>& elements, std::vector<Value>& out) const {
    std::map<Id, Value> made;
    for (const Id gather : loop_.gathers) out.push_back(compute_from_state(r, body_, gather, elements, made));
  }

  // Returns the elements of the state after the shorter loop and the last round.
  std::vector<Value> run_loop(ComputationRewriter& r) const {
    const Value init = r.mapped(r.from()[loop_.loop].operands.front());
    std::vector<Value> start;
    for (std::int64_t i = 0; i < old_size_; ++i) start.push_back(element_of(init, i));
    const std::vector<Value> elements = start;
    append_gathers(r, elements, start);
    Instruction shorter = r.translated(loop_.loop);
    shorter.operands = {ops::tuple(r.builder(), start).id};
    shorter.type = body_[body_.parameters.front()].type;
    shorter.sharding = nullptr;
    shorter.notes = for_another_op(shorter.notes);  // XLA's trip count no longer holds
    const Value done = r.builder().append(std::move(shorter));
    std::vector<Value> state;
    for (std::int64_t i = 0; i < isize(start); ++i) state.push_back(ops::get_tuple_element(done, static_cast<int>(i)));
    return last_round(r, state);
  }

  std::vector<Value> last_round(ComputationRewriter& r, const std::vector<Value>& state) const {
    std::map<Id, Value> made;
    for (std::size_t k = 0; k < loop_.gathers.size(); ++k)
      made.emplace(loop_.gathers[k], at(state, old_size_ + static_cast<std::int64_t>(k)));
    for (Id id = 0; id < body_.size(); ++id)  // in order, because of side effects
      if (id != body_.root && id != body_.parameters.front()) compute_from_state(r, body_, id, state, made);
    std::vector<Value> out;
    for (const Id result : body_[body_.root].operands) out.push_back(compute_from_state(r, body_, result, state, made));
    return out;
  }

  const Program& program_;
  const Prefetched& loop_;
  const Computation& body_;
  std::int64_t old_size_;
};

Program shifted(Program program, const Prefetched& loop) {
  std::vector<Type> elements = program[loop.body][program[loop.body].parameters.front()].type.elements();
  for (const Id gather : loop.gathers) elements.push_back(program[loop.body][gather].type);
  const Type state = Type::tuple(std::move(elements));
  for (const ComputationId c : {loop.condition, loop.body}) {
    auto copy = std::make_shared<Computation>(program[c]);
    at(copy->instructions, copy->parameters.front()).type = state;
    at(program.computations, c) = std::move(copy);
  }
  const LoopShifter shifter(program, loop);
  const auto touches = [&](const Computation& c) {
    return &c == &program[loop.condition] || &c == &program[loop.body] || &c == &program[loop.caller];
  };
  return remove_dead_code(rewrite_computations(
      program, [&](ComputationRewriter& r) { shifter.run(r); }, touches));
}

}  // namespace

std::optional<Program> prefetch_in_loops(const Program& program, const std::vector<int>& nodes) {
  std::optional<Program> out;
  while (const auto loop = GatherFinder(out ? *out : program, nodes).first())
    out = shifted(out ? *std::move(out) : program, *loop);
  return out;
}

}  // namespace tessera
