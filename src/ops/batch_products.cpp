// SPDX-License-Identifier: Apache-2.0
// The forms for several examples of products and of batch norm. An operand of its own for each example gives one larger
// op where possible: the examples are further rows or features of it.
#include "attention_support.h"
#include "batch_rules.h"
#include "tessera/ops/batch_norm.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/structural.h"
#include "tessera/ops/windows.h"

namespace tessera::rows {
namespace {

// Dim `from` becomes dim `to`; the others keep their order.
Value with_moved_dim(Value x, std::int64_t from, std::int64_t to) {
  if (from == to) return x;
  Dims order;
  for (std::int64_t d = 0; d < x.type().ndim(); ++d)
    if (d != from) order.push_back(d);
  order.insert(order.begin() + to, from);
  return ops::transpose(x, std::move(order));
}

// Whether the examples vary slower or faster than the dim with which they are merged.
enum class Order : std::uint8_t { kMajor, kMinor };

// Merges the examples, dim 0, with dim `dim` of one example.
Value with_merged_examples(Value x, std::int64_t dim, Order order) {
  Dims dims = x.type().dims();
  const std::int64_t examples = dims.front();
  dims.erase(dims.begin());
  at(dims, dim) *= examples;
  return ops::reshape(with_moved_dim(x, 0, order == Order::kMajor ? dim : dim + 1), std::move(dims));
}

// The inverse.
Value with_own_examples(Value x, std::int64_t dim, Order order, std::int64_t examples) {
  Dims dims = x.type().dims();
  const std::int64_t place = order == Order::kMajor ? dim : dim + 1;
  at(dims, dim) /= examples;
  dims.insert(dims.begin() + place, examples);
  return with_moved_dim(ops::reshape(x, std::move(dims)), place, 0);
}

}  // namespace

// Result dims: batch, free dims of lhs, free dims of rhs.
Value batch_dot(BatchContext& context) {
  DotAttributes a = context.view.as<DotAttributes>();
  const bool lhs = context.batched(0);
  const bool rhs = context.batched(1);
  const std::int64_t batch_dims = isize(a.lhs_batch_dims);
  const std::int64_t free_of_lhs = context.view.operands[0].ndim() - batch_dims - isize(a.lhs_contracting_dims);
  if (lhs) {
    a.lhs_batch_dims = one_further(std::move(a.lhs_batch_dims));
    a.lhs_contracting_dims = one_further(std::move(a.lhs_contracting_dims));
  }
  if (rhs) {
    a.rhs_batch_dims = one_further(std::move(a.rhs_batch_dims));
    a.rhs_contracting_dims = one_further(std::move(a.rhs_contracting_dims));
  }
  if (lhs && rhs) {
    a.lhs_batch_dims = with_front(0, std::move(a.lhs_batch_dims));
    a.rhs_batch_dims = with_front(0, std::move(a.rhs_batch_dims));
    return emit_for_examples(context, context.operands, make_attributes(std::move(a)));
  }
  const std::int64_t place = lhs ? batch_dims : batch_dims + free_of_lhs;  // of the examples, a free dim
  Dims dims = context.view.result.dims();
  dims.insert(dims.begin() + place, context.examples);
  const Value out = context.builder.emit(context.view.op, context.operands, make_attributes(std::move(a)),
                                         {.type = Type::array(context.view.result.dtype(), std::move(dims))});
  return with_moved_dim(out, place, 0);
}

// The examples are a further batch dim, also of scales with a value for each block.
Value batch_scaled_dot(BatchContext& context) {
  DotAttributes a = context.view.as<DotAttributes>();
  a.lhs_contracting_dims = one_further(std::move(a.lhs_contracting_dims));
  a.rhs_contracting_dims = one_further(std::move(a.rhs_contracting_dims));
  a.lhs_batch_dims = with_front(0, one_further(std::move(a.lhs_batch_dims)));
  a.rhs_batch_dims = with_front(0, one_further(std::move(a.rhs_batch_dims)));
  std::vector<Value> operands;
  for (int i = 0; i < isize(context.operands); ++i) {
    const bool is_one_scale = i >= 2 && at(context.view.operands, i).ndim() == 0;
    if (is_one_scale && !context.batched(i)) {
      operands.push_back(context.operand(i));
    } else if (is_one_scale) {
      const auto further = static_cast<std::size_t>(at(context.view.operands, i - 2).ndim());
      operands.push_back(ops::reshape(context.operand(i), with_front(context.examples, Dims(further, 1))));
    } else {
      operands.push_back(each_example(context, i));
    }
  }
  return emit_for_examples(context, operands, make_attributes(std::move(a)));
}

// The features do not depend on each other, so the examples are further features.
Value batch_batch_norm(BatchContext& context) {
  const std::int64_t feature = context.view.as<BatchNormAttributes>().feature_index;
  const int ndim = context.view.operands[0].ndim();
  const auto dim_in = [&](const Type& type) { return type.ndim() == ndim ? feature : 0; };
  std::vector<Value> operands;
  for (int i = 0; i < isize(context.operands); ++i)
    operands.push_back(
        with_merged_examples(each_example(context, i), dim_in(at(context.view.operands, i)), Order::kMajor));
  const Value merged = context.builder.emit(context.view.op, operands, context.view.attributes);
  const Type& type = context.view.result;
  if (!type.is_tuple()) return with_own_examples(merged, feature, Order::kMajor, context.examples);
  std::vector<Value> results;
  for (int k = 0; k < isize(type.elements()); ++k)
    results.push_back(with_own_examples(ops::get_tuple_element(merged, k), dim_in(at(type.elements(), k)),
                                        Order::kMajor, context.examples));
  return ops::tuple(context.builder, results);
}

// If the kernel is shared, the examples are further images; if the image is shared, further features of the result.
// Otherwise, they are further groups.
Value batch_convolution(BatchContext& context) {
  ConvolutionAttributes a = context.view.as<ConvolutionAttributes>();
  const ConvolutionLabels& labels = a.dim_labels;
  const std::int64_t examples = context.examples;
  std::vector<Value> operands = context.operands;
  Order order = Order::kMinor;
  std::int64_t merged = labels.result_feature;  // the dim of the result with the examples
  if (context.batched(0) && context.batched(1)) {
    order = Order::kMajor;
    const bool by_batch = a.batch_group_count > 1;
    operands[0] = with_merged_examples(operands[0], by_batch ? labels.lhs_batch : labels.lhs_feature, order);
    operands[1] = with_merged_examples(operands[1], labels.rhs_output, order);
    (by_batch ? a.batch_group_count : a.feature_group_count) *= examples;
  } else if (context.batched(0)) {
    operands[0] = with_merged_examples(operands[0], labels.lhs_batch, order);
    merged = labels.result_batch;
  } else {
    operands[1] = with_merged_examples(operands[1], labels.rhs_output, order);
  }
  Dims dims = context.view.result.dims();
  at(dims, merged) *= examples;
  const Value out = context.builder.emit(context.view.op, operands, make_attributes(std::move(a)),
                                         {.type = Type::array(context.view.result.dtype(), std::move(dims))});
  return with_own_examples(out, merged, order, examples);
}

namespace {

// The mask for the merged batch. A mask without a dim of the batch stays so if all examples share it.
Value merged_mask(const BatchContext& context, const AttentionForm& form) {
  const bool is_shared = at(context.view.operands, form.mask).dim(0) == 1;
  if (is_shared && !context.batched(form.mask)) return context.operand(form.mask);
  Value mask = each_example(context, form.mask);
  Dims dims = mask.type().dims();  // [examples, batch or 1, heads, rows, keys]
  if (is_shared && form.batch > 1) {
    const Value without_batch = ops::reshape(mask, {dims[0], dims[2], dims[3], dims[4]});
    dims[1] = form.batch;
    mask = ops::broadcast(without_batch, dims, {0, 2, 3, 4});
  }
  return with_merged_examples(mask, 0, Order::kMajor);
}

Type with_larger_dim_0(const Type& type, std::int64_t factor) {
  if (type.is_tuple()) {
    std::vector<Type> elements;
    for (const Type& element : type.elements()) elements.push_back(with_larger_dim_0(element, factor));
    return Type::tuple(std::move(elements));
  }
  Dims dims = type.dims();
  dims.front() *= factor;
  return Type::array(type.dtype(), std::move(dims));
}

}  // namespace

// The examples are a larger batch. The numbers of a dropout depend on the position in the batch, so they would differ
// from those of one example.
Value batch_attention(BatchContext& context) {
  const AttentionForm form = attention_form(context.view);
  if (form.attributes.dropout > 0 || (form.offset >= 0 && context.batched(form.offset))) return {};
  std::vector<Value> operands;
  for (int i = 0; i < isize(context.operands); ++i) {
    if (i == form.offset)
      operands.push_back(context.operand(i));
    else if (i == form.mask)
      operands.push_back(merged_mask(context, form));
    else
      operands.push_back(with_merged_examples(each_example(context, i), 0, Order::kMajor));
  }
  const Type type = with_larger_dim_0(context.view.result, context.examples);
  const Value merged = context.builder.emit(context.view.op, operands, context.view.attributes, {.type = type});
  std::vector<Value> results;
  for (int k = 0; k < isize(type.elements()); ++k)
    results.push_back(with_own_examples(ops::get_tuple_element(merged, k), 0, Order::kMajor, context.examples));
  return ops::tuple(context.builder, results);
}

}  // namespace tessera::rows
