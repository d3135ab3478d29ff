// SPDX-License-Identifier: Apache-2.0
#include "tessera/ops/plain_form.h"

#include <algorithm>

#include "tessera/base/text.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

// The dims in the order of memory, the slowest first.
Dims memory_order(const Type& type) {
  Dims order(type.layout().rbegin(), type.layout().rend());
  if (order.empty())
    for (int d = 0; d < type.ndim(); ++d) order.push_back(d);
  return order;
}
Dims picked(const Dims& from, const Dims& order) {
  Dims out;
  for (const auto d : order) out.push_back(at(from, d));
  return out;
}
Value transposed(Value x, const Dims& permutation) {
  return std::is_sorted(permutation.begin(), permutation.end()) ? x : ops::transpose(x, permutation);
}

bool has_bits_of_its_own(DType dtype) { return !is_narrow(dtype) && !is_complex(dtype) && dtype != DType::kPred; }

// All elements in the order of memory, as elements of another type with the same bytes.
Value converted_bits(Value x, DType to) {
  const std::int64_t from_size = dtype_size(x.type().dtype());
  const std::int64_t to_size = dtype_size(to);
  const std::int64_t count = x.type().element_count();
  if (from_size >= to_size) {
    Dims dims{count};
    if (from_size > to_size) dims.push_back(from_size / to_size);
    return ops::bitcast_convert(ops::reshape(x, {count}), Type::array(to, std::move(dims)));
  }
  const std::int64_t parts = to_size / from_size;
  return ops::bitcast_convert(ops::reshape(x, {count / parts, parts}), Type::array(to, {count / parts}));
}

std::optional<Value> plain_bitcast(const OpView& view, Value x) {
  const Type& from = view.operands[0];
  const Type& to = view.result;
  const bool changes_type = from.dtype() != to.dtype();
  if (changes_type && !(has_bits_of_its_own(from.dtype()) && has_bits_of_its_own(to.dtype()))) return std::nullopt;
  const Dims order = memory_order(to);
  Value memory = transposed(x, memory_order(from));
  if (changes_type) memory = converted_bits(memory, to.dtype());
  Dims place(order.size());  // of each dim of the result, in memory
  for (int i = 0; i < isize(order); ++i) at(place, at(order, i)) = i;
  return transposed(ops::reshape(memory, picked(to.dims(), order)), place);
}

Value constants_of(Builder& builder, const Literal& value) {
  if (!value.type().is_tuple()) return ops::constant(builder, value);
  std::vector<Value> elements;
  for (const Literal& element : value.elements()) elements.push_back(constants_of(builder, element));
  return ops::tuple(builder, elements);
}

}  // namespace

bool may_have_plain_form(const Instruction& instruction) {
  return instruction.op == &rows::kBitcast || (instruction.op->role == Role::kConstant && instruction.type.is_tuple());
}

std::optional<Value> plain_form(Builder& builder, const OpView& view, const std::vector<Value>& operands) {
  if (&view.op == &rows::kBitcast) return plain_bitcast(view, operands[0]);
  if (view.op.role == Role::kConstant && view.result.is_tuple())
    return constants_of(builder, view.as<ConstantAttributes>().value);
  return std::nullopt;
}

}  // namespace tessera
