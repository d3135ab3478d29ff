// SPDX-License-Identifier: Apache-2.0
//   %x = f32[4] parameter(0)
//   %c = f32[2] constant({1, 2})
#include <fmt/format.h>

#include <algorithm>

#include "row_support.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {

void parse_field(std::string_view, Literal&) {
  throw InternalError("a constant's literal is read by its declared type, not from an attribute");
}

std::string origins_text(const Literal& value) {
  return value.is_elided() ? fmt::format("{}", fmt::join(value.origins(), ",")) : "";
}

const Literal* known_constant(const Instruction& instruction) {
  if (instruction.op->role != Role::kConstant) return nullptr;
  const Literal& value = attributes_as<ConstantAttributes>(instruction.attributes).value;
  return value.is_elided() ? nullptr : &value;
}

namespace rows {
namespace {

// ---- parameter ------------------------------------------------------------------------------------------------------

Type infer_parameter(const OpView& view) {
  require(view.as<ParameterAttributes>().number >= 0, "number {} is negative", view.as<ParameterAttributes>().number);
  return view.result;
}

// ---- constant -------------------------------------------------------------------------------------------------------

Attributes parse_constant(AttributeReader& reader) {
  require(reader.literal != nullptr, "a literal is missing between the parentheses");
  return make_attributes(ConstantAttributes{*reader.literal});
}

Type infer_constant(const OpView& view) { return declared_or(view, view.as<ConstantAttributes>().value.type()); }

Literal evaluate_constant(const EvalContext& context) { return context.view.as<ConstantAttributes>().value; }

FactorMap result_factors(const OpView& view) {
  FactorMap map;
  for (const Type& leaf : view.result.leaves()) map.results.push_back(add_factors(map, leaf));
  return map;
}

bool is_splat(const Literal& value) {
  if (value.is_elided()) return false;
  const auto bytes = value.bytes();
  const auto size = static_cast<std::size_t>(dtype_size(value.type().dtype()));
  return bytes.size() <= size ||
         std::equal(bytes.begin() + static_cast<std::ptrdiff_t>(size), bytes.end(), bytes.begin());
}

// The complete constant, padded with zeros at its ends. An elided constant keeps its type, which identifies the
// elements that its text omits.
Value filled_up(Builder& builder, const Literal& value, const Dims& filled) {
  const Dims& box = value.type().dims();
  if (value.is_elided()) {
    std::vector<PaddingDim> padding(box.size());
    for (int d = 0; d < isize(box); ++d) at(padding, d).high = at(filled, d) - at(box, d);
    const Value all = ops::constant(builder, value);
    return filled == box ? all : ops::pad(all, ops::scalar(builder, value.type().dtype(), 0), std::move(padding));
  }
  Literal padded(Type::array(value.type().dtype(), filled));
  strided_copy(value, {0, row_major_strides(box)}, padded, {0, row_major_strides(filled)}, box);
  return ops::constant(builder, std::move(padded));
}

// If all elements are equal, a smaller constant; else the device's slice of the complete constant, padded so that no
// slice is clamped.
Value localize_constant(LocalizeContext& context) {
  const Literal& value = context.view.as<ConstantAttributes>().value;
  const Type& local = context.local_result();
  Builder& builder = context.builder;
  if (!value.type().is_array() || local.dims() == value.type().dims()) return localize_declared(context);
  Dims box = value.type().dims();
  if (is_splat(value)) {
    Literal shrunk(Type::array(local.dtype(), local.dims()));
    strided_copy(value, {0, Dims(box.size(), 0)}, shrunk, {0, row_major_strides(local.dims())}, local.dims());
    return emit_local(context, {}, make_attributes(ConstantAttributes{std::move(shrunk)}));
  }
  const Sharding& sharding = context.result_shardings.front();
  Dims filled;
  for (int d = 0; d < local.ndim(); ++d) filled.push_back(local.dim(d) * sharding.tiles(d));
  const NotesRef before = std::exchange(builder.default_notes, context.notes);
  const Value all = filled_up(builder, value, filled);
  std::vector<Value> operands{all};
  for (int d = 0; d < local.ndim(); ++d)
    operands.push_back(sharding.tiles(d) == 1 ? ops::scalar(builder, DType::kS32, 0) : context.start_of_result(d));
  const Value out =
      builder.emit(op_table().get("dynamic-slice"), operands, make_attributes(DynamicSliceAttributes{local.dims()}));
  builder.default_notes = before;
  return out;
}

}  // namespace

const OpDef kParameter{
    .name = "parameter",
    .payload = Payload::kNumber,
    .role = Role::kParameter,
    .parse = parse_attributes<ParameterAttributes>,
    .infer = infer_parameter,
    .type_inferable = false,
    .gradient_kind = GradientKind::kZero,
    .factors = result_factors,
};

const OpDef kConstant{
    .name = "constant",
    .payload = Payload::kLiteral,
    .role = Role::kConstant,
    .rematerializable = true,
    .materializes = true,
    .parse = parse_constant,
    .infer = infer_constant,
    .type_inferable = false,
    .evaluate = evaluate_constant,
    .gradient_kind = GradientKind::kZero,
    .factors = result_factors,
    .localize = localize_constant,
};

}  // namespace rows

Value ops::parameter(Builder& builder, std::int64_t number, Type type, std::string name, ShardingRef sharding) {
  return builder.emit(rows::kParameter, {}, make_attributes(ParameterAttributes{number}),
                      {.type = std::move(type), .sharding = std::move(sharding), .name = std::move(name)});
}
Value ops::constant(Builder& builder, Literal value) {
  return builder.emit(rows::kConstant, {}, make_attributes(ConstantAttributes{std::move(value)}));
}
Value ops::scalar(Builder& builder, DType dtype, double value) { return constant(builder, scalar_of(dtype, value)); }

}  // namespace tessera
