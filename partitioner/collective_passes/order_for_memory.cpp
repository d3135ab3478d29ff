// SPDX-License-Identifier: Apache-2.0
// A schedule follows the order of instructions in the program, except for instructions that free memory immediately.
// This pass therefore looks for an order with low peak memory.
#include <algorithm>
#include <functional>
#include <utility>

#include "normalize/duplicate_cheap_values.h"
#include "pipeline/collective_pipeline.h"
#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"
#include "tessera/schedule/schedule.h"

namespace tessera {
namespace {

using Order = std::vector<Id>;

// By instruction: the size of the largest value among it and the instructions it depends on.
std::vector<std::int64_t> largest_before(const Computation& computation) {
  std::vector<std::int64_t> out;
  for (const Instruction& instruction : computation.instructions) {
    const bool is_new = instruction.type.is_array() && instruction.op->role != Role::kParameter;
    std::int64_t most = is_new ? instruction.type.byte_size() : 0;
    for (const Id operand : instruction.operands) most = std::max(most, at(out, operand));
    out.push_back(most);
  }
  return out;
}

enum class First : std::uint8_t { kLastOperand, kLargest, kSmallest, kDrawn };

// The operands and control predecessors of an instruction, in the order in which to emit them.
Order waited_for(const Computation& computation, Id id, First first, const std::vector<std::int64_t>& largest,
                 std::uint64_t draw) {
  Order out = computation[id].operands;
  if (first == First::kLastOperand) {
    std::sort(out.begin(), out.end(), std::greater<>());
  } else if (first == First::kDrawn) {
    std::sort(out.begin(), out.end(), [&](Id a, Id b) {
      const auto key = [&](Id operand) {
        return std::pair(hash_mix(draw, static_cast<std::uint64_t>(operand)), operand);
      };
      return key(a) < key(b);
    });
  } else {
    std::stable_sort(out.begin(), out.end(), [&](Id a, Id b) {
      return first == First::kLargest ? at(largest, a) > at(largest, b) : at(largest, a) < at(largest, b);
    });
  }
  out.insert(out.begin(), computation[id].control_predecessors.begin(), computation[id].control_predecessors.end());
  return out;
}

// An order in which every instruction precedes its first reader as closely as possible: parameters first, then depth
// first from the root.
Order depth_first(const Computation& computation, First first, std::uint64_t draw) {
  const auto largest = largest_before(computation);
  Order out;
  std::vector<char> seen(computation.instructions.size(), 0);
  const auto visit = [&](Id from) {
    Order stack{from};
    while (!stack.empty()) {
      const Id id = stack.back();
      char& state = seen[static_cast<std::size_t>(id)];
      if (state != 0) {
        stack.pop_back();
        if (std::exchange(state, 2) == 1) out.push_back(id);
        continue;
      }
      state = 1;
      const Order before = waited_for(computation, id, first, largest, draw);
      for (auto it = before.rbegin(); it != before.rend(); ++it)
        if (at(seen, *it) == 0) stack.push_back(*it);
    }
  };
  for (const Id parameter : computation.parameters) visit(parameter);
  visit(computation.root);
  for (Id id = 0; id < computation.size(); ++id) visit(id);
  return out;
}

ComputationRef reordered(const ComputationRef& from, const Order& order) {
  auto out = std::make_shared<Computation>();
  out->name = from->name;
  out->execution_thread = from->execution_thread;
  std::vector<Id> new_ids(order.size(), -1);
  for (const Id id : order) {
    new_ids[static_cast<std::size_t>(id)] = out->size();
    out->instructions.push_back((*from)[id]);
    for (Id& operand : out->instructions.back().operands) operand = at(new_ids, operand);
    for (Id& before : out->instructions.back().control_predecessors) before = at(new_ids, before);
  }
  for (const Id parameter : from->parameters) out->parameters.push_back(at(new_ids, parameter));
  out->root = at(new_ids, from->root);
  return out;
}

// Computations with side effects keep their order.
bool may_change(const Computation& computation, const std::vector<bool>& with_effects) {
  return std::none_of(computation.instructions.begin(), computation.instructions.end(),
                      [&](const Instruction& i) { return has_side_effect(i, with_effects); });
}

Program in_order(Program program, First first, const std::vector<bool>& with_effects, std::uint64_t draw = 0) {
  for (ComputationRef& computation : program.computations)
    if (may_change(*computation, with_effects))
      computation = reordered(computation, depth_first(*computation, first, draw));
  return program;
}

}  // namespace

Program order_for_memory(const Program& program) {
  constexpr std::int64_t kLargestCompared = 20'000;  // counting requires a schedule
  if (program.instruction_count() > kLargestCompared) return program;
  // Pseudo-random orders (always the same ones) can beat the rules; large programs try fewer because counting takes
  // long.
  constexpr std::int64_t kMostDraws = 24;
  const auto draws =
      static_cast<std::uint64_t>(std::min(kMostDraws, 4'000 / std::max<std::int64_t>(1, program.instruction_count())));
  const std::vector<bool> with_effects = computations_with_effects(program);
  Program best = program;
  std::int64_t least = peak_bytes(program);
  const auto compare = [&](Program other) {
    const std::int64_t peak = peak_bytes(other);
    if (peak >= least) return;
    least = peak;
    best = std::move(other);
  };
  const auto compare_orders = [&](const Program& form) {
    compare(form);
    for (const First first : {First::kLastOperand, First::kLargest, First::kSmallest})
      compare(in_order(form, first, with_effects));
    for (std::uint64_t draw = 0; draw < draws; ++draw) compare(in_order(form, First::kDrawn, with_effects, draw));
  };
  compare_orders(program);
  // Also try forms in which zeros with several readers are duplicated and concatenations are written in place.
  const auto is_other = [](const Program& a, const Program& b) {
    return a.instruction_count() != b.instruction_count();
  };
  const Program own = with_duplicated_splats(program);
  if (is_other(own, program)) compare_orders(own);
  const Program chained = concatenate_in_place(own);
  if (is_other(chained, own)) compare_orders(chained);
  return best;
}

}  // namespace tessera
