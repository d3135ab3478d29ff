// SPDX-License-Identifier: Apache-2.0
// The trip count of a loop, if its text determines it: a counter that starts at a constant, advances by a constant and
// is compared with another one. XLA leaves copies in place of annotations, and its own result in backend_config.
#include <charconv>

#include "tessera/base/checked.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

Id through_copies(const Computation& computation, Id id) {
  while (computation[id].op == &rows::kCopy) id = computation[id].operands[0];
  return id;
}

std::optional<std::int64_t> integer_constant(const Computation& computation, Id id) {
  const Instruction& instruction = computation[through_copies(computation, id)];
  const Literal* value = known_constant(instruction);
  const bool fits = value != nullptr && instruction.type.is_array() && instruction.type.ndim() == 0 &&
                    is_integer(instruction.type.dtype());
  if (!fits || element_as_index(*value, 0) != element_as_int(*value, 0)) return std::nullopt;  // u64 beyond s64
  return element_as_int(*value, 0);
}

// `index` if `id` is get-tuple-element(parameter, index).
std::optional<std::int64_t> state_element(const Computation& computation, Id id) {
  const Instruction& instruction = computation[through_copies(computation, id)];
  if (instruction.op->role != Role::kGetTupleElement) return std::nullopt;
  if (computation[instruction.operands[0]].op->role != Role::kParameter) return std::nullopt;
  return attributes_as<IndexAttributes>(instruction.attributes).index;
}

struct Limit {
  std::int64_t element = 0;  // of the state
  std::int64_t limit = 0;    // runs while element < limit
  Id constant = -1;          // the operand of the comparison
};
std::optional<Limit> loop_limit(const Computation& condition) {
  const Instruction& root = condition[through_copies(condition, condition.root)];
  if (root.op != &rows::kCompare) return std::nullopt;
  const auto direction = attributes_as<CompareAttributes>(root.attributes).direction;
  const bool mirrored = direction == CompareDirection::kGt || direction == CompareDirection::kGe;
  const auto element = state_element(condition, root.operands[mirrored ? 1 : 0]);
  const Id constant = through_copies(condition, root.operands[mirrored ? 0 : 1]);
  const auto limit = integer_constant(condition, constant);
  if (!element || !limit) return std::nullopt;
  if (direction == CompareDirection::kLt || direction == CompareDirection::kGt)
    return Limit{*element, *limit, constant};
  if (direction == CompareDirection::kLe || direction == CompareDirection::kGe) {
    const Checked past_limit = Checked(*limit) + 1;
    if (past_limit.fits()) return Limit{*element, past_limit.value(), constant};
  }
  return std::nullopt;
}

std::optional<std::int64_t> step_of(const Computation& body, std::int64_t element) {
  const Instruction& root = body[body.root];
  if (root.op->role != Role::kTuple) return std::nullopt;
  const Instruction& next = body[through_copies(body, at(root.operands, element))];
  if (next.op != &rows::kAdd) return std::nullopt;
  for (const int side : {0, 1})
    if (state_element(body, at(next.operands, side)) == element)
      return integer_constant(body, at(next.operands, 1 - side));
  return std::nullopt;
}

// The trip count that XLA found: backend_config={"known_trip_count":{"n":"5"},…}, as JSON or quoted.
std::optional<std::int64_t> noted_trip_count(const Instruction& loop) {
  if (!loop.notes) return std::nullopt;
  for (const TextAttribute& attribute : loop.notes->other) {
    if (attribute.name != "backend_config") continue;
    std::string text = attribute.text;
    std::erase_if(text, [](char c) { return c == '\\' || c == '"' || c == ' '; });
    constexpr std::string_view kKey = "known_trip_count:{n:";
    const auto found = text.find(kKey);
    if (found == std::string::npos) continue;
    std::int64_t count = 0;
    const auto [end, error] = std::from_chars(text.data() + found + kKey.size(), text.data() + text.size(), count);
    if (error == std::errc() && count >= 0) return count;
  }
  return std::nullopt;
}

}  // namespace

std::optional<CountedLoop> counted_loop(const Program& program, const Computation& caller, const Instruction& loop) {
  const auto limit = loop_limit(program[loop.called[0]]);
  const Instruction& init = caller[loop.operands[0]];
  if (!limit || init.op->role != Role::kTuple) return std::nullopt;
  const auto step = step_of(program[loop.called[1]], limit->element);
  const auto start = integer_constant(caller, at(init.operands, limit->element));
  if (!step || *step <= 0 || !start) return std::nullopt;
  const Checked distance = Checked(limit->limit) - *start;
  if (!distance.fits()) return std::nullopt;
  const std::int64_t trips = distance.value() <= 0 ? 0 : ceil_div(distance.value(), *step);
  return CountedLoop{limit->element, *start, *step, trips, limit->constant};
}

std::optional<std::int64_t> known_trip_count(const Program& program, const Computation& caller,
                                             const Instruction& loop) {
  if (const auto noted = noted_trip_count(loop)) return noted;
  const auto counted = counted_loop(program, caller, loop);
  return counted ? std::optional(counted->trips) : std::nullopt;
}

}  // namespace tessera
