// SPDX-License-Identifier: Apache-2.0
// The forms for several examples of ops that move and reduce elements, and the default of elementwise ops.
#include "batch_rules.h"

#include "reduce_support.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"
#include "window_support.h"

namespace tessera {

Type with_examples(const Type& type, std::int64_t examples) {
  if (!type.is_tuple()) return Type::array(type.dtype(), rows::with_front(examples, type.dims()));
  std::vector<Type> elements;
  for (const Type& element : type.elements()) elements.push_back(with_examples(element, examples));
  return Type::tuple(std::move(elements));
}

Value for_each_example(Value x, std::int64_t examples) {
  Dims places;
  for (std::int64_t d = 0; d < x.type().ndim(); ++d) places.push_back(d + 1);
  return ops::broadcast(x, rows::with_front(examples, x.type().dims()), std::move(places));
}

Value emit_batched(BatchContext& context) {
  const OpDef& op = context.view.op;
  if (op.batch != nullptr) return op.batch(context);
  return op.elementwise ? rows::batch_same(context) : Value{};
}

namespace rows {

Value each_example(const BatchContext& context, int i) {
  return context.batched(i) ? context.operand(i) : for_each_example(context.operand(i), context.examples);
}

std::vector<Value> all_examples(const BatchContext& context) {
  std::vector<Value> out;
  for (int i = 0; i < isize(context.operands); ++i) out.push_back(each_example(context, i));
  return out;
}

Value emit_for_examples(const BatchContext& context, const std::vector<Value>& operands, Attributes attributes) {
  return context.builder.emit(context.view.op, operands, std::move(attributes),
                              {.type = with_examples(context.view.result, context.examples), .called = context.called});
}

Dims one_further(Dims dims) {
  for (auto& dim : dims) ++dim;
  return dims;
}

Dims with_front(std::int64_t first, Dims dims) {
  dims.insert(dims.begin(), first);
  return dims;
}

namespace {

// A scalar of each example, or one scalar for all of them, repeated over the dims of one example.
Value over_dims(const BatchContext& context, int i, const Dims& dims) {
  const Dims all = with_front(context.examples, dims);
  return context.batched(i) ? ops::broadcast(context.operand(i), all, {0}) : ops::splat(context.operand(i), all);
}

bool any_batched(const BatchContext& context, int first, int end) {
  for (int i = first; i < end; ++i)
    if (context.batched(i)) return true;
  return false;
}

Value combined_by(Reduction reduction, Value a, Value b) {
  switch (reduction) {
    case Reduction::kSum: return ops::add(a, b);
    case Reduction::kProduct: return ops::multiply(a, b);
    case Reduction::kMin: return ops::minimum(a, b);
    case Reduction::kMax: return ops::maximum(a, b);
    case Reduction::kAnd: return ops::logical_and(a, b);
    case Reduction::kOr: break;
  }
  return ops::logical_or(a, b);
}

WindowDims window_with_examples(const OpView& view) {
  WindowDims out{window_dims(view)};
  out.dims.insert(out.dims.begin(), WindowDim{});
  return out;
}

}  // namespace

// select and clamp also take scalars.
Value batch_same(BatchContext& context) {
  std::vector<Value> operands;
  const OpView& view = context.view;
  for (int i = 0; i < isize(context.operands); ++i) {
    const bool is_scalar = view.op.elementwise && at(view.operands, i).ndim() == 0 && view.result.ndim() > 0;
    operands.push_back(is_scalar ? over_dims(context, i, view.result.dims()) : each_example(context, i));
  }
  return emit_for_examples(context, operands, context.view.attributes);
}

Value batch_broadcast(BatchContext& context) {
  const Dims& places = context.view.as<DimensionsAttributes>().dimensions;
  return ops::broadcast(context.operand(0), with_front(context.examples, context.view.result.dims()),
                        with_front(0, one_further(places)));
}

Value batch_reshape(BatchContext& context) {
  return ops::reshape(context.operand(0), with_front(context.examples, context.view.result.dims()));
}

Value batch_transpose(BatchContext& context) {
  return ops::transpose(context.operand(0),
                        with_front(0, one_further(context.view.as<DimensionsAttributes>().dimensions)));
}

Value batch_slice(BatchContext& context) {
  std::vector<SliceRange> ranges = context.view.as<SliceAttributes>().slice;
  ranges.insert(ranges.begin(), {0, context.examples, 1});
  return ops::slice(context.operand(0), std::move(ranges));
}

Value batch_pad(BatchContext& context) {
  std::vector<PaddingDim> padding = context.view.as<PadAttributes>().padding;
  padding.insert(padding.begin(), PaddingDim{});
  const Value x = each_example(context, 0);
  if (!context.batched(1)) return ops::pad(x, context.operand(1), std::move(padding));
  const Type type = x.type();
  const Value elements = ops::full(context.builder, Type::array(DType::kPred, type.dims()), 1);
  const Value is_element = ops::pad(elements, ops::scalar(context.builder, DType::kPred, 0), padding);
  const Value padded = ops::pad(x, ops::scalar(context.builder, type.dtype(), 0), std::move(padding));
  return ops::select(is_element, padded, over_dims(context, 1, context.view.result.dims()));
}

Value batch_dimensions(BatchContext& context) {
  Dims dims = one_further(context.view.as<DimensionsAttributes>().dimensions);
  // A map names all dims.
  if (!context.view.called.empty() && !dims.empty()) dims = with_front(0, std::move(dims));
  return emit_for_examples(context, all_examples(context), make_attributes(DimensionsAttributes{std::move(dims)}));
}

Value batch_sort(BatchContext& context) {
  SortAttributes attributes = context.view.as<SortAttributes>();
  attributes.dimensions = one_further(std::move(attributes.dimensions));
  return emit_for_examples(context, all_examples(context), make_attributes(std::move(attributes)));
}

Value batch_reduce(BatchContext& context) {
  const int count = input_count(context.view);
  const Dims dims = one_further(context.view.as<DimensionsAttributes>().dimensions);
  std::vector<Value> operands;
  for (int i = 0; i < count; ++i) operands.push_back(each_example(context, i));
  if (any_batched(context, count, 2 * count)) {
    const auto reduction = known_reduction(context.view);
    if (!reduction) return {};
    const Value reduced = ops::reduce(operands.front(), *reduction, dims);
    return combined_by(*reduction, over_dims(context, 1, context.view.result.dims()), reduced);
  }
  operands.insert(operands.end(), context.operands.begin() + count, context.operands.end());
  return emit_for_examples(context, operands, make_attributes(DimensionsAttributes{dims}));
}

Value batch_reduce_window(BatchContext& context) {
  const int count = input_count(context.view);
  WindowDims window = window_with_examples(context.view);
  std::vector<Value> operands;
  for (int i = 0; i < count; ++i) operands.push_back(each_example(context, i));
  if (any_batched(context, count, 2 * count)) {
    const auto reduction = known_reduction(context.view);
    if (!reduction) return {};
    const Value reduced = ops::reduce_window(operands.front(), *reduction, std::move(window));
    return combined_by(*reduction, over_dims(context, 1, context.view.result.dims()), reduced);
  }
  operands.insert(operands.end(), context.operands.begin() + count, context.operands.end());
  return emit_for_examples(context, operands, make_attributes(WindowAttributes{std::move(window)}));
}

Value batch_select_and_scatter(BatchContext& context) {
  const Attributes attributes = make_attributes(WindowAttributes{window_with_examples(context.view)});
  const Value x = each_example(context, 0);
  const Value source = each_example(context, 1);
  if (!context.batched(2)) return emit_for_examples(context, {x, source, context.operand(2)}, attributes);
  if (reduction_of(*context.view.called[1]) != Reduction::kSum) return {};
  const Value zero = ops::scalar(context.builder, x.type().dtype(), 0);
  return ops::add(over_dims(context, 2, context.view.result.dims()),
                  emit_for_examples(context, {x, source, zero}, attributes));
}

}  // namespace rows
}  // namespace tessera
