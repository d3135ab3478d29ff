// SPDX-License-Identifier: Apache-2.0
#include "row_support.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"
#include "tessera/sharding/placement.h"
#include "tessera/tensor/narrow_dtype.h"

namespace tessera::rows {

std::string dims_text(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims, ",")); }

const Type& array_operand(const OpView& view, int i) {
  const Type& type = at(view.operands, i);
  if (!type.is_array()) fail("operand {} is {}; an array is needed", i, type.str());
  return type;
}

const Type& scalar_operand(const OpView& view, int i, std::string_view what) {
  const Type& type = array_operand(view, i);
  if (type.ndim() != 0) fail("{} must be a scalar, got {}", what, type.str());
  return type;
}

const Type& declared_array(const OpView& view) {
  if (!view.result.is_array()) fail("the result type must be declared as an array, got {}", view.result.str());
  return view.result;
}

Type declared_or(const OpView& view, Type inferred) {
  if (view.result == inferred) return view.result;
  return inferred;
}

void check_dim(std::int64_t dim, int ndim, std::string_view what) {
  require(dim >= 0 && dim < ndim, "{} {} is out of range for {} dims", what, dim, ndim);
}

void check_distinct_dims(const Dims& dims, int ndim, std::string_view what) {
  for (std::size_t i = 0; i < dims.size(); ++i) {
    check_dim(dims[i], ndim, what);
    if (std::find(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(i), dims[i]) !=
        dims.begin() + static_cast<std::ptrdiff_t>(i))
      fail("{} names dim {} twice: {}", what, dims[i], field_text(dims));
  }
}

bool contains(const Dims& dims, std::int64_t dim) { return std::find(dims.begin(), dims.end(), dim) != dims.end(); }

// ---- factors --------------------------------------------------------------------------------------------------------

TensorFactors add_factors(FactorMap& map, const Type& type, FactorKind kind) {
  if (!type.is_array()) return {};
  TensorFactors out;
  for (const auto size : type.dims()) out.push_back({map.add(size, kind)});
  return out;
}

FactorMap elementwise_factors(const OpView& view) {
  FactorMap map;
  map.results = {add_factors(map, view.result)};
  for (const Type& operand : view.operands)
    map.operands.push_back(operand.ndim() == view.result.ndim() ? map.results.front() : TensorFactors{});
  return map;
}

FactorMap leafwise_factors(const OpView& view) {
  FactorMap map;
  for (const Type& operand : view.operands)
    for (const Type& leaf : operand.leaves()) map.operands.push_back(add_factors(map, leaf));
  map.results = map.operands;
  return map;
}

// ---- localize -------------------------------------------------------------------------------------------------------

Value emit_local(LocalizeContext& context, const std::vector<Value>& operands, Attributes attributes) {
  Type type = context.view.result.is_tuple() ? shard_type(context.view.result, context.result_shardings)
                                             : context.local_result();
  return context.builder.emit(context.view.op, operands, std::move(attributes),
                              {.type = std::move(type), .called = context.called, .notes = context.notes});
}

Value localize_declared(LocalizeContext& context) {
  return emit_local(context, context.operands, context.view.attributes);
}

Value counted_once(LocalizeContext& context, Value scalar) {
  const Sharding& result = context.result_shardings.front();
  if (!result.is_partial()) return scalar;
  Builder& builder = context.builder;
  const Literal identity = reduction_identity(result.reduction, scalar.type().dtype());
  const Instruction& maker = scalar.instruction();
  if (maker.op->role == Role::kConstant && attributes_as<ConstantAttributes>(maker.attributes).value == identity)
    return scalar;
  const NotesRef before = std::exchange(builder.default_notes, context.notes);
  const Value coordinate = context.coordinate(result.partial);
  const Value is_first =
      ops::compare(coordinate, ops::scalar(builder, coordinate.type().dtype(), 0), CompareDirection::kEq);
  const Value once = ops::select(is_first, scalar, ops::constant(builder, identity));
  builder.default_notes = before;
  return once;
}

// ---- evaluation -----------------------------------------------------------------------------------------------------

namespace {

template <std::size_t kSize>
void copy_box(const std::byte* from, const Dims& from_strides, std::byte* to, const Dims& to_strides, const Dims& box,
              std::size_t dim) {
  const std::int64_t count = box[dim];
  const std::int64_t step_from = from_strides[dim] * static_cast<std::int64_t>(kSize);
  const std::int64_t step_to = to_strides[dim] * static_cast<std::int64_t>(kSize);
  for (std::int64_t i = 0; i < count; ++i) {
    if (dim + 1 == box.size())
      std::memcpy(to + i * step_to, from + i * step_from, kSize);
    else
      copy_box<kSize>(from + i * step_from, from_strides, to + i * step_to, to_strides, box, dim + 1);
  }
}

}  // namespace

void strided_copy(const Literal& from, const StridedSide& source, Literal& to, const StridedSide& target,
                  const Dims& box) {
  if (product(box) == 0) return;
  const std::int64_t size = dtype_size(to.type().dtype());
  const std::byte* in = from.bytes().data() + source.offset * size;
  std::byte* out = to.mutable_bytes().data() + target.offset * size;
  const auto run = [&](const Dims& a, const Dims& b, const Dims& dims) {
    switch (size) {
      case 1: return copy_box<1>(in, a, out, b, dims, 0);
      case 2: return copy_box<2>(in, a, out, b, dims, 0);
      case 4: return copy_box<4>(in, a, out, b, dims, 0);
      case 8: return copy_box<8>(in, a, out, b, dims, 0);
      default: return copy_box<16>(in, a, out, b, dims, 0);
    }
  };
  if (box.empty()) return run({0}, {0}, {1});
  run(source.strides, target.strides, box);
}

Literal scalar_at(const Literal& array, std::int64_t i) {
  Literal out(Type::scalar(array.type().dtype()));
  strided_copy(array, {i, {}}, out, {0, {}}, {});
  return out;
}

Literal splat_literal(const Literal& scalar, const Type& type) {
  Literal out(type);
  strided_copy(scalar, {0, Dims(type.dims().size(), 0)}, out, {0, row_major_strides(type.dims())}, type.dims());
  return out;
}

// ---- gradients ------------------------------------------------------------------------------------------------------

Value full_like(Value x, double value) { return ops::full(*x.builder, x.type(), value); }

Value sum_all(Value x) {
  Dims all(x.type().dims().size());
  std::iota(all.begin(), all.end(), 0);
  return all.empty() ? x : ops::reduce(x, Reduction::kSum, all);
}

namespace {

template <class F>
Type with_dtypes(const Type& type, const F& change) {
  if (type.is_array()) return type.with_dtype(change(type.dtype()));
  if (!type.is_tuple()) return type;
  std::vector<Type> elements;
  for (const auto& element : type.elements()) elements.push_back(with_dtypes(element, change));
  return Type::tuple(std::move(elements));
}

DType wider(DType t) {
  if (!is_narrow(t)) return t;
  if (is_narrow_float(t)) return DType::kF32;
  return t == DType::kS1 || t == DType::kS2 || t == DType::kS4 ? DType::kS8 : DType::kU8;
}

// Converts between a narrow type and its wider one; other types stay unchanged.
Literal recast(const Literal& x, const Type& to) {
  if (x.type() == to) return x;
  if (to.is_tuple()) {
    std::vector<Literal> elements;
    for (std::size_t i = 0; i < to.elements().size(); ++i)
      elements.push_back(recast(x.elements()[i], Type(to.elements()[i])));
    return Literal::tuple(std::move(elements));
  }
  Literal out(to);
  for (std::int64_t i = 0; i < to.element_count(); ++i) {
    const double value = element_as_double(x, i);
    if (is_narrow(to.dtype()))
      at(out.mutable_bytes(), i) = static_cast<std::byte>(narrow_bits(to.dtype(), value));
    else
      visit_dtype(to.dtype(), [&]<class T>() { at(out.mutable_data<T>(), i) = static_cast<T>(value); });
  }
  return out;
}

}  // namespace

double larger(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  return a == b ? (std::signbit(a) ? b : a) : std::max(a, b);
}
double smaller(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  return a == b ? (std::signbit(a) ? a : b) : std::min(a, b);
}

bool has_narrow(const EvalContext& context) {
  const auto narrow = [](const Type& type) { return type.is_array() && is_narrow(type.dtype()); };
  const auto& view = context.view;
  const auto leaves = view.result.leaves();
  return std::any_of(view.operands.begin(), view.operands.end(), narrow) ||
         std::any_of(leaves.begin(), leaves.end(), narrow);
}

Literal evaluate_widened(const EvalContext& context, Literal (*evaluate)(const EvalContext&)) {
  OpView view = context.view;
  for (auto& type : view.operands) type = with_dtypes(type, wider);
  view.result = with_dtypes(view.result, wider);
  std::vector<Literal> operands;
  for (std::size_t i = 0; i < context.operands.size(); ++i)
    operands.push_back(recast(context.operands[i], view.operands[i]));
  const auto call = [&](int which, const std::vector<Literal>& arguments) {
    const auto types = view.called[static_cast<std::size_t>(which)]->parameter_types();
    std::vector<Literal> narrow;
    for (std::size_t i = 0; i < arguments.size(); ++i) narrow.push_back(recast(arguments[i], types[i]));
    const Literal result = context.call(which, narrow);
    return recast(result, with_dtypes(result.type(), wider));
  };
  return recast(evaluate({view, operands, call, context.partition, context.partition_count}), context.view.result);
}

Literal as_widest(const Literal& x) {
  const bool real = is_any_float(x.type().dtype());
  Literal out(x.type().with_dtype(real ? DType::kF64 : DType::kS64));
  for (std::int64_t i = 0; i < x.type().element_count(); ++i)
    if (real)
      at(out.mutable_data<double>(), i) = element_as_double(x, i);
    else
      at(out.mutable_data<std::int64_t>(), i) = element_as_int(x, i);
  return out;
}

}  // namespace tessera::rows
