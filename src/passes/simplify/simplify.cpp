// SPDX-License-Identifier: Apache-2.0
// Local rewrites that do not change values: identities, chains of the same data movement, scalar constants. The rules
// hold for NaN and infinities (there is no rule for x*0 or x-x). The rule for x + 0 may change the sign of a zero.
#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "plain.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"
#include "tessera/passes/explanations.h"
#include "tessera/passes/passes.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

/// The replacement of an instruction: a value that already exists, a new instruction with the type, names and notes of
/// the old one, or a broadcast of a new scalar constant.
struct Rewrite {
  Id value = -1;
  std::optional<Instruction> instruction{};
  std::optional<Literal> broadcast_scalar{};
};
using Result = std::optional<Rewrite>;
/// A rule inspects an instruction whose operands are ids of the computation.
using Rule = Result (*)(const Computation&, const Instruction&);

// ---- conditions ----------------------------------------------------------------------------------------------------

bool same_sharding(const Instruction& a, const Instruction& b) {
  return a.sharding == b.sharding || (a.sharding && b.sharding && *a.sharding == *b.sharding);
}

// Replaces `instruction` by `value`. An instruction with a different sharding is a reshard and stays, and so does one
// that changes the layout.
Result same_as(const Computation& c, const Instruction& instruction, Id value) {
  const Instruction& other = c[value];
  const bool fits = other.type == instruction.type && is_plain(instruction) &&
                    (!instruction.sharding || same_sharding(instruction, other)) &&
                    (!instruction.type.is_array() || instruction.type.layout() == other.type.layout());
  if (!fits) return std::nullopt;
  return Rewrite{value};
}

Result with_operand(const Instruction& instruction, Id operand, Attributes attributes) {
  Rewrite out;
  out.instruction = instruction;
  out.instruction->operands = {operand};
  out.instruction->attributes = std::move(attributes);
  return out;
}

// Returns the operand if it is a plain, unannotated instruction of the same op: one instruction can then replace both.
const Instruction* chained(const Computation& c, const Instruction& instruction) {
  const Instruction& operand = c[instruction.operands[0]];
  return operand.op == instruction.op && !operand.sharding && is_plain(operand) && is_plain(instruction) ? &operand
                                                                                                         : nullptr;
}

// Returns the scalar that fills a constant or a broadcast constant.
std::optional<Literal> splat_value(const Computation& c, Id id) {
  const Instruction* instruction = &c[id];
  if (instruction->op == &rows::kBroadcast) instruction = &c[instruction->operands[0]];
  const Literal* value = known_constant(*instruction);
  if (value == nullptr || !value->type().is_array() || value->type().ndim() != 0) return std::nullopt;
  return *value;
}
bool is_all(const Computation& c, Id id, double value) {
  const auto scalar = splat_value(c, id);
  if (!scalar || scalar->type().dtype() == DType::kPred || is_complex(scalar->type().dtype())) return false;
  return element_as_double(*scalar, 0) == value;
}

// ---- rules ---------------------------------------------------------------------------------------------------------

bool is_identity(const Dims& permutation) {
  for (std::int64_t i = 0; i < isize(permutation); ++i)
    if (at(permutation, i) != i) return false;
  return true;
}
const Dims& dimensions(const Instruction& instruction) {
  return attributes_as<DimensionsAttributes>(instruction.attributes).dimensions;
}

Result to_operand(const Computation& c, const Instruction& i) { return same_as(c, i, i.operands[0]); }

Result reshape(const Computation& c, const Instruction& i) {
  if (auto same = to_operand(c, i)) return same;
  const Instruction* before = chained(c, i);
  return before != nullptr ? with_operand(i, before->operands[0], i.attributes) : std::nullopt;
}

Result transpose(const Computation& c, const Instruction& i) {
  if (is_identity(dimensions(i))) return to_operand(c, i);
  const Instruction* before = chained(c, i);
  if (before == nullptr) return std::nullopt;
  Dims both;
  for (const auto d : dimensions(i)) both.push_back(at(dimensions(*before), d));
  if (is_identity(both))
    if (auto same = same_as(c, i, before->operands[0])) return same;
  return with_operand(i, before->operands[0], make_attributes(DimensionsAttributes{std::move(both)}));
}

Result broadcast(const Computation& c, const Instruction& i) {
  if (is_identity(dimensions(i)))
    if (auto same = to_operand(c, i)) return same;
  if (const Instruction& count = c[i.operands[0]]; count.op == &rows::kIota && !count.sharding && is_plain(count)) {
    // Every device computes its own shard.
    const auto dim = attributes_as<IotaAttributes>(count.attributes).iota_dimension;
    Rewrite out{.value = -1, .instruction = i};
    out.instruction->op = count.op;
    out.instruction->operands.clear();
    out.instruction->attributes = make_attributes(IotaAttributes{at(dimensions(i), dim)});
    return out;
  }
  const Instruction* before = chained(c, i);
  if (before == nullptr) return std::nullopt;
  Dims both;
  for (const auto d : dimensions(*before)) both.push_back(at(dimensions(i), d));
  return with_operand(i, before->operands[0], make_attributes(DimensionsAttributes{std::move(both)}));
}

// Removes a conversion to the type of its operand.
Result convert(const Computation& c, const Instruction& i) { return to_operand(c, i); }

// A slice of a broadcast that takes the operand's dims completely becomes a smaller broadcast: its position does not
// matter. A loop over a broadcast would otherwise build all of it in each iteration.
Result slice_of_broadcast(const Computation& c, const Instruction& i) {
  const Instruction& operand = c[i.operands[0]];
  if (operand.op != &rows::kBroadcast || operand.sharding || !is_plain(operand) || !is_plain(i)) return std::nullopt;
  for (const auto d : dimensions(operand))
    if (i.type.dim(static_cast<int>(d)) != operand.type.dim(static_cast<int>(d))) return std::nullopt;
  Result out = with_operand(i, operand.operands[0], operand.attributes);
  out->instruction->op = &rows::kBroadcast;
  return out;
}

// A dynamic-slice at constant starts becomes a slice: rules look through slices, and their dims can stay sharded.
Result dynamic_slice(const Computation& c, const Instruction& i) {
  if (auto same = to_operand(c, i)) return same;
  if (auto smaller = slice_of_broadcast(c, i)) return smaller;
  if (!is_plain(i)) return std::nullopt;
  std::vector<SliceRange> ranges;
  for (int d = 0; d < i.type.ndim(); ++d) {
    const Literal* start = known_constant(c[at(i.operands, d + 1)]);
    if (start == nullptr) return std::nullopt;
    const auto most = c[i.operands[0]].type.dim(d) - i.type.dim(d);
    const auto first = element_as_index(*start, 0);
    ranges.push_back({.start = std::clamp<std::int64_t>(first, 0, most)});
    ranges.back().limit = ranges.back().start + i.type.dim(d);
  }
  Result out = with_operand(i, i.operands[0], make_attributes(SliceAttributes{std::move(ranges)}));
  out->instruction->op = &rows::kSlice;
  return out;
}

Result pad(const Computation& c, const Instruction& i) {
  for (const PaddingDim& dim : attributes_as<PadAttributes>(i.attributes).padding)
    if (dim != PaddingDim{}) return std::nullopt;
  return to_operand(c, i);
}

// Returns the padding that gives the same result as a slice of a padded dim, if there is one. In the padded dim, x[k]
// is at low + k*(interior+1).
std::optional<PaddingDim> sliced_padding(std::int64_t size, const PaddingDim& dim, const SliceRange& range) {
  const auto spacing = dim.interior + 1;
  const auto shift = dim.low - range.start;
  if (size == 0 || range.limit <= range.start || spacing % range.stride != 0 || shift % range.stride != 0)
    return std::nullopt;
  PaddingDim out{.low = shift / range.stride, .high = 0, .interior = spacing / range.stride - 1};
  const auto reach = (size - 1) * (out.interior + 1) + 1;
  out.high = ceil_div(range.limit - range.start, range.stride) - out.low - reach;
  const bool some_is_left = -out.low < reach && -out.high < reach && -out.low - out.high < reach;
  return some_is_left ? std::optional(out) : std::nullopt;
}

// A slice of a padded value becomes a pad whose edges may be negative. This includes shifts, where one end gains the
// elements that the other one loses.
Result slice(const Computation& c, const Instruction& i) {
  if (auto same = to_operand(c, i)) return same;
  if (auto smaller = slice_of_broadcast(c, i)) return smaller;
  const Instruction& padded = c[i.operands[0]];
  if (padded.op != &rows::kPad || padded.sharding || !is_plain(padded) || !is_plain(i)) return std::nullopt;
  const auto& paddings = attributes_as<PadAttributes>(padded.attributes).padding;
  const auto& ranges = attributes_as<SliceAttributes>(i.attributes).slice;
  std::vector<PaddingDim> both;
  for (int d = 0; d < i.type.ndim(); ++d) {
    const auto left = sliced_padding(c[padded.operands[0]].type.dim(d), at(paddings, d), at(ranges, d));
    if (!left) return std::nullopt;
    both.push_back(*left);
  }
  Rewrite out{.value = -1, .instruction = i};
  out.instruction->op = padded.op;
  out.instruction->operands = padded.operands;
  out.instruction->attributes = make_attributes(PadAttributes{std::move(both)});
  return out;
}

Result concatenate(const Computation& c, const Instruction& i) {
  return i.operands.size() == 1 ? to_operand(c, i) : std::nullopt;
}

Result add(const Computation& c, const Instruction& i) {
  if (is_all(c, i.operands[1], 0)) return same_as(c, i, i.operands[0]);
  if (is_all(c, i.operands[0], 0)) return same_as(c, i, i.operands[1]);
  return std::nullopt;
}
Result multiply(const Computation& c, const Instruction& i) {
  if (is_all(c, i.operands[1], 1)) return same_as(c, i, i.operands[0]);
  if (is_all(c, i.operands[0], 1)) return same_as(c, i, i.operands[1]);
  return std::nullopt;
}
Result subtract(const Computation& c, const Instruction& i) {
  return is_all(c, i.operands[1], 0) ? to_operand(c, i) : std::nullopt;
}
Result divide(const Computation& c, const Instruction& i) {
  return is_all(c, i.operands[1], 1) ? to_operand(c, i) : std::nullopt;
}
Result negate(const Computation& c, const Instruction& i) {
  const Instruction* before = chained(c, i);
  return before != nullptr ? same_as(c, i, before->operands[0]) : std::nullopt;
}

Result select(const Computation& c, const Instruction& i) {
  if (i.operands[1] == i.operands[2]) return same_as(c, i, i.operands[1]);
  if (const auto predicate = splat_value(c, i.operands[0]))
    return same_as(c, i, element_as_int(*predicate, 0) != 0 ? i.operands[1] : i.operands[2]);
  // p ? (p ? a : b) : c is p ? a : c
  Rewrite out{.value = -1, .instruction = i};
  for (const int choice : {1, 2}) {
    const Instruction& inner = c[at(i.operands, choice)];
    const bool reads_choice = inner.op == i.op && inner.operands[0] == i.operands[0] && !inner.sharding;
    if (reads_choice && is_plain(inner) && is_plain(i))
      at(out.instruction->operands, choice) = at(inner.operands, choice);
  }
  return out.instruction->operands == i.operands ? Result{} : Result{std::move(out)};
}

Result get_tuple_element(const Computation& c, const Instruction& i) {
  const Instruction& tuple = c[i.operands[0]];
  if (tuple.op->role != Role::kTuple || tuple.sharding || !is_plain(tuple)) return std::nullopt;
  return same_as(c, i, at(tuple.operands, attributes_as<IndexAttributes>(i.attributes).index));
}

// Evaluates the op on scalar constants.
Literal scalar_result(const Instruction& i, const std::vector<Literal>& operands) {
  OpView view{*i.op, {}, Type::scalar(i.type.dtype()), i.attributes, {}};
  for (const Literal& operand : operands) view.operands.push_back(operand.type());
  return i.op->evaluate(EvalContext{.view = view, .operands = operands, .call = nullptr});
}

// A scalar op on constants becomes a constant. An elementwise op on splat constants becomes a broadcast constant.
Result fold(const Computation& c, const Instruction& i) {
  const OpDef& op = *i.op;
  const bool may = op.role == Role::kPlain && op.evaluate != nullptr && !has_side_effect(i) && i.called.empty() &&
                   !i.operands.empty() && i.type.is_array() &&
                   (i.type.ndim() == 0 ? is_plain(i) : op.elementwise && is_plain_or_grouped(i));
  if (!may) return std::nullopt;
  std::vector<Literal> operands;
  for (const Id id : i.operands) {
    auto scalar =
        i.type.ndim() == 0 && c[id].type.is_array() && c[id].type.ndim() > 0 ? std::nullopt : splat_value(c, id);
    if (!scalar) return std::nullopt;
    operands.push_back(std::move(*scalar));
  }
  Rewrite out{.value = -1, .instruction = i};
  Instruction& made = *out.instruction;
  made.operands.clear();
  if (i.type.ndim() > 0) {
    made.op = &rows::kBroadcast;
    made.attributes = make_attributes(DimensionsAttributes{});
    out.broadcast_scalar = scalar_result(i, operands);
    return out;
  }
  made.op = &rows::kConstant;
  made.attributes = make_attributes(ConstantAttributes{scalar_result(i, operands)});
  return out;
}

Rule rule_for(const OpDef* op) {
  static const std::unordered_map<const OpDef*, Rule> kRules = {{&rows::kCopy, to_operand},
                                                                {&rows::kReshape, reshape},
                                                                {&rows::kTranspose, transpose},
                                                                {&rows::kBroadcast, broadcast},
                                                                {&rows::kConvert, convert},
                                                                {&rows::kSlice, slice},
                                                                {&rows::kDynamicSlice, dynamic_slice},
                                                                {&rows::kPad, pad},
                                                                {&rows::kConcatenate, concatenate},
                                                                {&rows::kAdd, add},
                                                                {&rows::kMultiply, multiply},
                                                                {&rows::kSubtract, subtract},
                                                                {&rows::kDivide, divide},
                                                                {&rows::kNegate, negate},
                                                                {&rows::kSelect, select},
                                                                {&rows::kGetTupleElement, get_tuple_element}};
  const auto found = kRules.find(op);
  return found != kRules.end() ? found->second : nullptr;
}

Result simplified(const Computation& c, const Instruction& instruction) {
  if (instruction.op->role == Role::kParameter || instruction.op->role == Role::kConstant) return std::nullopt;
  if (const Rule rule = rule_for(instruction.op))
    if (auto out = rule(c, instruction)) return out;
  return fold(c, instruction);
}

bool touches(const Computation& computation) {
  for (const Instruction& instruction : computation.instructions)
    if (simplified(computation, instruction)) return true;
  return false;
}

Value apply(ComputationRewriter& rewriter, Id id) {
  Builder& builder = rewriter.builder();
  Instruction instruction = rewriter.translated(id);
  // Applying one rule may make another rule applicable to the same instruction.
  while (auto next = simplified(builder.computation(), instruction)) {
    if (next->value >= 0) return builder.value(next->value);
    instruction = std::move(*next->instruction);
    if (next->broadcast_scalar) instruction.operands = {ops::constant(builder, std::move(*next->broadcast_scalar)).id};
  }
  return builder.append(std::move(instruction));
}

}  // namespace

Program simplify(const Program& program) { return remove_dead_code(rewrite(program, apply, touches)); }

}  // namespace tessera
