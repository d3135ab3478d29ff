// SPDX-License-Identifier: Apache-2.0
// The forms in which ops use variables: converted, gathered, one of a stack.
#include <utility>

#include "tessera/autodiff/gradients.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

// The sharding of one variable of a stack.
Sharding row_sharding(Sharding stack, bool is_row) {
  if (is_row) stack.dims.erase(stack.dims.begin());
  return stack;
}

}  // namespace

// The conversion comes before the gather, which halves the bytes to transfer.
Value Trace::emit_gathered(const TensorImpl& variable, Value stored, bool is_row) {
  Builder& into = *stored.builder;
  Value value = stored;
  const NotesRef before = into.default_notes;
  const auto note = [&](std::string_view key, std::string_view text) {
    into.default_notes = with_frontend_attribute(into.default_notes, key, std::string(text));
  };
  if (variable.compute_dtype && *variable.compute_dtype != value.type().dtype()) {
    // By default, gradients of the converted copy have the element type of the parameter.
    const DType stored_type = value.type().dtype();
    note(kSumTypeAttribute,
         dtype_name(variable.unshard ? variable.unshard->reduce_dtype.value_or(stored_type) : stored_type));
    value = ops::convert(value, *variable.compute_dtype);
    if (variable.node->sharding)
      into.set_sharding(value, make_sharding(row_sharding(*variable.node->sharding, is_row)));
  }
  if (variable.unshard) {
    note("tessera.unit", variable.unshard->unit);
    note(kUnshardAttribute, variable.unshard->recompute ? "true" : "false");
    value = ops::sharding_mark(value, row_sharding(variable.unshard->gathered, is_row));
    if (!variable.name.empty()) into.set_name(value, variable.name + ".gathered");
  }
  into.default_notes = before;
  return value;
}

Value Trace::use_row(const TensorImpl& stack, Value row) {
  const bool has_sharding = stack.node->sharding.has_value();
  if (has_sharding) row.builder->set_sharding(row, make_sharding(row_sharding(*stack.node->sharding, true)));
  return emit_gathered(stack, row, true);
}

Value Trace::row_of_stack(const TensorImpl& view) {
  const Value stack = stored(Tensor(view.stack));
  Dims dims(stack.type().dims().begin() + 1, stack.type().dims().end());
  return ops::reshape(ops::slice_dim(stack, 0, view.row, view.row + 1), std::move(dims));
}

}  // namespace tessera
