// SPDX-License-Identifier: Apache-2.0
// Hoists collectives out of loops, which extends the state of the loop. Collectives of loop-invariant values are
// computed before the loop and passed in:
//
//   while (i, w) { %g = all-gather(%w); … %g … }    ->  %g = all-gather(%w); while (i, w, g) { … g … }
//
// In a sum of reduced values, the reduced values are summed in a new element and reduced once after the loop:
//
//   while (i, s) { s = add(s, all-reduce(%x)); … }
//     ->  while (i, s, t = 0) { t = add(t, %x); … }; add(s, all-reduce(t))
//
// Each round changes one loop, so that a collective hoisted from an inner loop can leave the outer loop in a later
// round.
#include <algorithm>
#include <map>
#include <optional>

#include "collective_passes/collective_match.h"
#include "localize/localize.h"
#include "pipeline/leaves.h"
#include "tessera/base/checked.h"
#include "tessera/base/text.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/structural.h"
#include "tessera/partitioner/collective_passes/collective_passes.h"
#include "tessera/passes/loop_state.h"
#include "tessera/passes/passes.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

/// `acc = add(.., collective(x))`: x is summed in a new element.
struct Accumulation {
  Id add = -1;         // no longer adds the collective
  Id kept = -1;        // the other operand of `add`
  Id collective = -1;  // the operand of `add` to hoist
  std::int64_t element = -1;
  Reduction reduction = Reduction::kSum;
};

/// The collectives to hoist from one loop.
struct Departure {
  ComputationId caller = -1;
  Id loop = -1;
  ComputationId condition = -1;
  ComputationId body = -1;
  std::vector<Id> invariant;  // collectives of the body whose results are passed in
  std::vector<Accumulation> accumulations;
  [[nodiscard]] bool is_empty() const { return invariant.empty() && accumulations.empty(); }
};

class LoopFinder {
 public:
  LoopFinder(const Program& program, const CollectivePassOptions& options)
      : program_(program), options_(options), calls_(call_counts(program)) {}

  // The first loop with a collective to hoist, innermost loops first.
  [[nodiscard]] std::optional<Departure> first() const {
    for (ComputationId c = 0; c < isize(program_.computations); ++c)
      for (Id id = 0; id < program_[c].size(); ++id) {
        if (program_[c][id].op->role != Role::kWhile) continue;
        auto found = departure_of(c, id);
        if (!found.is_empty()) return found;
      }
    return std::nullopt;
  }

 private:
  [[nodiscard]] Departure departure_of(ComputationId caller, Id id) const {
    const Instruction& loop = program_[caller][id];
    Departure out{caller, id, loop.called[0], loop.called[1], {}, {}};
    const Computation& body = program_[out.body];
    const bool fits = at(calls_, out.body) == 1 && at(calls_, out.condition) == 1 && reads_only_elements(body) &&
                      reads_only_elements(program_[out.condition]) && body[body.root].op->role == Role::kTuple &&
                      known_trip_count(program_, program_[caller], loop) != 0;
    if (!fits) return out;
    const std::int64_t room = options_.memory_bound - moved_before(caller, id);
    find_invariant(body, room, out);
    if (out.invariant.empty()) find_accumulations(out, room);
    return out;
  }

  // The bytes of state elements that come from collectives before the loop or are operands of collectives after it.
  [[nodiscard]] std::int64_t moved_before(ComputationId caller, Id loop) const {
    const Computation& c = program_[caller];
    const Instruction& init = c[c[loop].operands[0]];
    Checked bytes = 0;
    if (init.op->role == Role::kTuple)
      for (const Id start : init.operands)
        if (c[start].op->role == Role::kCollective) bytes += c[start].type.byte_size();
    for (const Instruction& reader : c.instructions) {
      if (reader.op->role != Role::kCollective) continue;
      for (const Id operand : reader.operands)
        if (c[operand].op->role == Role::kGetTupleElement && c[operand].operands[0] == loop)
          bytes += c[operand].type.byte_size();
    }
    return bytes.value_or_most();
  }

  void find_invariant(const Computation& body, std::int64_t room, Departure& out) const {
    const auto ordered = ordered_by_control(body);
    std::vector<bool> same(body.instructions.size(), false);
    std::vector<Id> collectives;
    for (Id id = 0; id < body.size(); ++id) {
      const Instruction& instruction = body[id];
      if (const auto element = state_element(body, id)) {
        same[static_cast<std::size_t>(id)] = returns_unchanged(body, *element);
        continue;
      }
      const Role role = instruction.op->role;
      const bool computes = role == Role::kPlain || role == Role::kConstant || role == Role::kCopy ||
                            role == Role::kPartitionId || role == Role::kCollective || role == Role::kTuple ||
                            role == Role::kGetTupleElement;
      if (!computes || has_side_effect(instruction) || at(ordered, id) || is_pinned(instruction)) continue;
      same[static_cast<std::size_t>(id)] = std::all_of(instruction.operands.begin(), instruction.operands.end(),
                                                       [&](Id operand) { return at(same, operand); });
      if (role != Role::kCollective || !at(same, id) || !instruction.type.is_array()) continue;
      if (instruction.type.byte_size() > room) continue;
      room -= instruction.type.byte_size();
      collectives.push_back(id);
    }
    out.invariant = with_other_readers(body, collectives);
  }

  // Whether the body returns the element unchanged.
  static bool returns_unchanged(const Computation& body, std::int64_t index) {
    return state_element(body, at(body[body.root].operands, index)) == index;
  }

  // The collectives that are read by more than other hoisted collectives.
  static std::vector<Id> with_other_readers(const Computation& body, const std::vector<Id>& collectives) {
    std::vector<bool> live(body.instructions.size(), false);
    live[static_cast<std::size_t>(body.root)] = true;
    for (Id id = body.size() - 1; id >= 0; --id) {
      if (!at(live, id) && !has_side_effect(body[id])) continue;
      if (std::binary_search(collectives.begin(), collectives.end(), id)) continue;
      for (const Id operand : body[id].operands) live[static_cast<std::size_t>(operand)] = true;
    }
    std::vector<Id> out;
    std::copy_if(collectives.begin(), collectives.end(), std::back_inserter(out), [&](Id id) { return at(live, id); });
    return out;
  }

  void find_accumulations(Departure& out, std::int64_t room) const {
    const Computation& body = program_[out.body];
    const auto uses = body.use_counts();
    const auto ordered = ordered_by_control(body);
    const auto elements = isize(body[body.root].operands);
    for (std::int64_t i = 0; i < elements; ++i) {
      if (is_read(program_[out.condition], i)) continue;
      std::vector<Accumulation> found = chain_of(body, uses, i);
      for (const Accumulation& one : found) {
        const std::int64_t bytes = body[body[one.collective].operands[0]].type.byte_size();
        if (at(ordered, one.collective) || at(ordered, one.add) || bytes > room) continue;
        room -= bytes;
        out.accumulations.push_back(one);
      }
    }
  }
  static bool is_read(const Computation& condition, std::int64_t index) {
    for (Id id = 0; id < condition.size(); ++id)
      if (state_element(condition, id) == index) return true;
    return false;
  }

  // The additions on the path from element i of the parameter to element i of the result. Each must be read only by the
  // next.
  [[nodiscard]] std::vector<Accumulation> chain_of(const Computation& body, const std::vector<int>& uses,
                                                   std::int64_t i) const {
    std::vector<bool> from_element(body.instructions.size(), false);
    int reads = 0;
    for (Id id = 0; id < body.size(); ++id) {
      if (state_element(body, id) == i) {
        from_element[static_cast<std::size_t>(id)] = at(uses, id) == 1;
        ++reads;
        continue;
      }
      const auto& operands = body[id].operands;
      if (operands.size() == 2 && at(uses, id) == 1)
        from_element[static_cast<std::size_t>(id)] = at(from_element, operands[0]) != at(from_element, operands[1]);
    }
    std::vector<Accumulation> out;
    Id id = at(body[body.root].operands, i);
    if (reads != 1 || !at(from_element, id)) return out;
    std::optional<Reduction> reduction;
    while (!state_element(body, id)) {
      const auto added = reduction_of_op(*body[id].op);
      if (!added || (reduction && added != reduction)) return {};
      reduction = added;
      const int side = at(from_element, body[id].operands[0]) ? 0 : 1;
      const Id kept = at(body[id].operands, side);
      const Id addend = at(body[id].operands, 1 - side);
      if (is_reduction(body[addend], *reduction) && at(uses, addend) == 1)
        out.push_back({id, kept, addend, i, *reduction});
      id = kept;
    }
    return out;
  }
  // The reduction that an op performs, if it may be hoisted.
  static std::optional<Reduction> reduction_of_op(const OpDef& op) {
    const bool fits =
        op.combines && (op.combines->of_numbers == Reduction::kSum || op.combines->of_numbers == Reduction::kMin ||
                        op.combines->of_numbers == Reduction::kMax);
    return fits ? std::optional(op.combines->of_numbers) : std::nullopt;
  }
  [[nodiscard]] bool is_reduction(const Instruction& instruction, Reduction reduction) const {
    const bool is_kind =
        is_single(instruction, CollectiveKind::kAllReduce) || is_single(instruction, CollectiveKind::kReduceScatter);
    return is_kind && !is_pinned(instruction) && instruction.type.dtype() != DType::kPred &&
           reduction_by(program_, instruction) == reduction;
  }

  const Program& program_;
  const CollectivePassOptions& options_;
  std::vector<int> calls_;
};

/// Rewrites condition, body and caller of one loop whose parameters already have the extended state.
class Mover {
 public:
  Mover(const Program& program, const Departure& departure)
      : program_(program),
        departure_(departure),
        body_(program[departure.body]),
        first_new_(isize(body_[body_.root].operands)),
        state_(body_[body_.parameters[0]].type) {}

  void run(ComputationRewriter& r) const {
    if (&r.from() == &body_) return move_out_of_body(r);
    const bool is_caller = &r.from() == &program_[departure_.caller];
    std::vector<Value> elements;
    for (Id id = 0; id < r.from().size(); ++id) {
      const Instruction& instruction = r.from()[id];
      if (is_caller && id == departure_.loop) {
        elements = loop_elements(r);
        r.replace(id, ops::tuple(r.builder(), elements));
        r.builder().set_sharding(r.mapped(id), instruction.sharding);
      } else if (is_caller && instruction.op->role == Role::kGetTupleElement &&
                 instruction.operands[0] == departure_.loop) {
        r.replace(id, at(elements, index_of(instruction)));
      } else {
        r.keep(id);
      }
    }
  }

 private:
  void move_out_of_body(ComputationRewriter& r) const {
    const Value state = r.mapped(body_.parameters[0]);
    std::vector<Value> added;
    for (std::int64_t k = first_new_; k < isize(state_.elements()); ++k)
      added.push_back(ops::get_tuple_element(state, static_cast<int>(k)));
    for (std::size_t k = 0; k < departure_.invariant.size(); ++k) r.replace(departure_.invariant[k], added[k]);
    for (Id id = 0; id < body_.size(); ++id) {
      if (id == body_.root || std::binary_search(departure_.invariant.begin(), departure_.invariant.end(), id))
        continue;
      const auto one = std::find_if(departure_.accumulations.begin(), departure_.accumulations.end(),
                                    [&](const Accumulation& a) { return a.add == id; });
      if (one != departure_.accumulations.end())
        r.replace(id, r.mapped(one->kept));
      else
        r.keep(id);
    }
    std::vector<Value> returned = r.mapped(body_[body_.root].operands);
    for (std::size_t k = 0; k < departure_.invariant.size(); ++k) returned.push_back(added[k]);
    for (std::size_t k = 0; k < departure_.accumulations.size(); ++k) {
      const Accumulation& one = departure_.accumulations[k];
      const Value addend = r.mapped(body_[one.collective].operands[0]);
      returned.push_back(r.builder().emit(*body_[one.add].op, {added[departure_.invariant.size() + k], addend}));
    }
    r.replace(body_.root, ops::tuple(r.builder(), returned));
  }

  // The values of the old elements after the extended loop.
  std::vector<Value> loop_elements(ComputationRewriter& r) const {
    const Instruction& loop = r.from()[departure_.loop];
    const Value init = r.mapped(loop.operands[0]);
    std::vector<Value> start;
    for (std::int64_t i = 0; i < first_new_; ++i) start.push_back(element_of(init, i));
    const std::vector<Value> given = start;
    std::map<Id, Value> made;
    for (const Id id : departure_.invariant) start.push_back(compute_from_state(r, body_, id, given, made));
    for (const auto& [id, value] : made) forget_global_dims(r, value);
    for (const auto& one : departure_.accumulations) {
      const Type& type = body_[body_[one.collective].operands[0]].type;
      const Value zero = ops::constant(r.builder(), reduction_identity(one.reduction, type.dtype()));
      start.push_back(ops::splat(zero, type.dims()));
    }
    Instruction longer = r.translated(departure_.loop);
    longer.operands = {ops::tuple(r.builder(), start).id};
    longer.type = state_;
    longer.sharding = nullptr;
    const Value done = r.builder().append(std::move(longer));
    std::vector<Value> out;
    for (std::int64_t i = 0; i < first_new_; ++i) out.push_back(ops::get_tuple_element(done, static_cast<int>(i)));
    for (std::size_t k = 0; k < departure_.accumulations.size(); ++k) {
      const Accumulation& one = departure_.accumulations[k];
      const auto index = first_new_ + isize(departure_.invariant) + static_cast<std::int64_t>(k);
      const Value sum = ops::get_tuple_element(done, static_cast<int>(index));
      const Value reduced = clone_into(r, body_[one.collective], {sum});
      forget_global_dims(r, reduced);
      at(out, one.element) = r.builder().emit(*body_[one.add].op, {at(out, one.element), reduced});
    }
    return out;
  }
  // The value of a moved instruction is that of another round, or of all, so `check` must not compare it.
  static void forget_global_dims(ComputationRewriter& r, Value value) {
    r.builder().set_notes(value,
                          with_frontend_attribute(value.instruction().notes, kGlobalDimsAttribute, std::nullopt));
  }

  const Program& program_;
  const Departure& departure_;
  const Computation& body_;
  std::int64_t first_new_;  // the number of elements of the old state
  Type state_;
};

Type longer_state(const Computation& body, const Departure& departure) {
  std::vector<Type> elements = body[body.parameters[0]].type.elements();
  for (const Id id : departure.invariant) elements.push_back(body[id].type);
  for (const auto& one : departure.accumulations) elements.push_back(body[body[one.collective].operands[0]].type);
  return Type::tuple(std::move(elements));
}

Program moved(Program program, const Departure& departure) {
  const Type state = longer_state(program[departure.body], departure);
  for (const ComputationId c : {departure.condition, departure.body}) {
    auto copy = std::make_shared<Computation>(program[c]);
    at(copy->instructions, copy->parameters[0]).type = state;
    at(program.computations, c) = std::move(copy);
  }
  const Mover mover(program, departure);
  const auto touches = [&](const Computation& c) {
    return &c == &program[departure.condition] || &c == &program[departure.body] || &c == &program[departure.caller];
  };
  return remove_dead_code(rewrite_computations(
      program, [&](ComputationRewriter& r) { mover.run(r); }, touches));
}

}  // namespace

Program hoist_collectives(const Program& program, const CollectivePassOptions& options) {
  Program now = program;
  constexpr int kMostRounds = 64;
  for (int round = 0; round < kMostRounds; ++round) {
    const auto departure = LoopFinder(now, options).first();
    if (!departure) break;
    now = moved(std::move(now), *departure);
  }
  return now;
}

}  // namespace tessera
