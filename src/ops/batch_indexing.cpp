// SPDX-License-Identifier: Apache-2.0
// The forms for several examples of gather, scatter and the dynamic slices. If each example has its own indices, the
// examples are a batching dim. Otherwise they are a dim of the windows.
#include <algorithm>

#include "batch_rules.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"

namespace tessera::rows {

Value batch_gather(BatchContext& context) {
  GatherAttributes a = context.view.as<GatherAttributes>();
  const bool has_operands = context.batched(0);
  const bool has_indices = context.batched(1);
  a.offset_dims = one_further(std::move(a.offset_dims));
  if (has_operands) {
    a.collapsed_slice_dims = one_further(std::move(a.collapsed_slice_dims));
    a.start_index_map = one_further(std::move(a.start_index_map));
    a.operand_batching_dims = one_further(std::move(a.operand_batching_dims));
    a.slice_sizes = with_front(has_indices ? 1 : context.examples, std::move(a.slice_sizes));
    if (!has_indices) a.offset_dims = with_front(0, std::move(a.offset_dims));
  }
  if (has_indices) {
    a.start_indices_batching_dims = one_further(std::move(a.start_indices_batching_dims));
    ++a.index_vector_dim;
    a.indices_are_sorted = false;
  }
  if (has_operands && has_indices) {
    a.operand_batching_dims = with_front(0, std::move(a.operand_batching_dims));
    a.start_indices_batching_dims = with_front(0, std::move(a.start_indices_batching_dims));
  }
  return emit_for_examples(context, context.operands, make_attributes(std::move(a)));
}

Value batch_scatter(BatchContext& context) {
  ScatterAttributes a = context.view.as<ScatterAttributes>();
  const int count = isize(context.operands) / 2;
  const bool has_indices = context.batched(count);
  a.update_window_dims = one_further(std::move(a.update_window_dims));
  a.inserted_window_dims = one_further(std::move(a.inserted_window_dims));
  a.scatter_dims_to_operand_dims = one_further(std::move(a.scatter_dims_to_operand_dims));
  a.input_batching_dims = one_further(std::move(a.input_batching_dims));
  if (has_indices) {
    a.input_batching_dims = with_front(0, std::move(a.input_batching_dims));
    a.scatter_indices_batching_dims = with_front(0, one_further(std::move(a.scatter_indices_batching_dims)));
    ++a.index_vector_dim;
    a.indices_are_sorted = false;
  } else {
    a.update_window_dims = with_front(0, std::move(a.update_window_dims));
  }
  std::vector<Value> operands = all_examples(context);
  at(operands, count) = context.operand(count);
  return emit_for_examples(context, operands, make_attributes(std::move(a)));
}

namespace {

bool any_start_is_batched(const BatchContext& context, int first) {
  return std::find(context.is_batched.begin() + first, context.is_batched.end(), true) != context.is_batched.end();
}

// The start indices from operand `first` on, with 0 for the dim of the examples.
std::vector<Value> starts_with_examples(const BatchContext& context, int first) {
  std::vector<Value> out(context.operands.begin() + first, context.operands.end());
  const DType dtype = out.empty() ? DType::kS32 : out.front().type().dtype();
  out.insert(out.begin(), ops::scalar(context.builder, dtype, 0));
  return out;
}

// One index vector for each example: [examples, dims].
Value index_vectors(const BatchContext& context, int first) {
  const auto is_long = [](const Type& type) { return dtype_size(type.dtype()) > 4 || type.dtype() == DType::kU32; };
  const auto& types = context.view.operands;
  const DType dtype = std::any_of(types.begin() + first, types.end(), is_long) ? DType::kS64 : DType::kS32;
  std::vector<Value> columns;
  for (int i = first; i < isize(context.operands); ++i)
    columns.push_back(ops::reshape(ops::convert(each_example(context, i), dtype), {context.examples, 1}));
  return ops::concatenate(columns, 1);
}

Dims counted_from(std::int64_t first, std::int64_t count) {
  Dims out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(first + i);
  return out;
}

}  // namespace

Value batch_dynamic_slice(BatchContext& context) {
  const Dims& sizes = context.view.as<DynamicSliceAttributes>().dynamic_slice_sizes;
  if (!any_start_is_batched(context, 1))
    return ops::dynamic_slice(context.operand(0), starts_with_examples(context, 1),
                              with_front(context.examples, sizes));
  const bool has_operands = context.batched(0);
  const Dims batching = has_operands ? Dims{0} : Dims{};
  return ops::gather(context.operand(0), index_vectors(context, 1),
                     {.offset_dims = counted_from(1, isize(sizes)),
                      .collapsed_slice_dims = {},
                      .start_index_map = counted_from(has_operands ? 1 : 0, isize(sizes)),
                      .operand_batching_dims = batching,
                      .start_indices_batching_dims = batching,
                      .index_vector_dim = 1,
                      .slice_sizes = has_operands ? with_front(1, sizes) : sizes});
}

// A dynamic-update-slice clamps its start, but a scatter drops updates that are outside of the operand.
Value batch_dynamic_update_slice(BatchContext& context) {
  Builder& builder = context.builder;
  const Value x = each_example(context, 0);
  const Value update = each_example(context, 1);
  if (!any_start_is_batched(context, 2)) return ops::dynamic_update_slice(x, update, starts_with_examples(context, 2));
  const Type& one = context.view.operands[0];
  const std::int64_t ndim = one.ndim();
  Value indices = index_vectors(context, 2);
  const Type type = indices.type();
  std::vector<std::int64_t> last;
  for (int d = 0; d < one.ndim(); ++d) last.push_back(one.dim(d) - context.view.operands[1].dim(d));
  const Value limit = ops::convert(ops::constant(builder, Literal::from<std::int64_t>({ndim}, last)), type.dtype());
  indices = ops::minimum(ops::maximum(indices, ops::full(builder, type, 0)), ops::broadcast(limit, type.dims(), {1}));
  const Type scalar = Type::scalar(one.dtype());
  Builder overwrite = builder.program().computation("overwrite");
  ops::parameter(overwrite, 0, scalar, "old");
  const Value updated = ops::parameter(overwrite, 1, scalar, "new");
  const ComputationId combiner = builder.program().add(std::move(overwrite), updated);
  return ops::scatter({x}, indices, {update},
                      {.update_window_dims = counted_from(1, ndim),
                       .inserted_window_dims = {},
                       .scatter_dims_to_operand_dims = counted_from(1, ndim),
                       .input_batching_dims = {0},
                       .scatter_indices_batching_dims = {0},
                       .index_vector_dim = 1,
                       .unique_indices = true},
                      combiner);
}

}  // namespace tessera::rows
