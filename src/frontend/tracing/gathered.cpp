// SPDX-License-Identifier: Apache-2.0
// The forms in which ops use variables: converted, gathered, one of a stack.
#include <cctype>

#include <utility>

#include "tessera/autodiff/gradients.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tracing/program_name.h"

namespace tessera {
namespace {

// The sharding of one variable of a stack.
Sharding row_sharding(Sharding stack, bool is_row) {
  if (is_row) stack.dims.erase(stack.dims.begin());
  return stack;
}

// The forward pass whose gradient stays partial until add_gradient(): no_sync(), the pass that reduces the sum of partial
// gradients, or a reduction over all devices at once.
bool gradient_is_deferred(const TensorImpl& variable) {
  const TensorImpl& owner = variable.argument ? *variable.argument : variable;
  if (owner.gradient_rules.defers_reduction || owner.gradient_rules.reduces_at_once) return true;
  if (owner.grad.is_null()) return false;
  const auto& sharding = owner.grad.impl().node->sharding;
  return sharding && sharding->is_partial();
}

}  // namespace

std::string program_name(std::string name) {
  const auto is_kept = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-';
  };
  for (char& c : name)
    if (!is_kept(c)) c = '_';
  return name.empty() ? "input" : name;
}

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
    const Unshard& unshard = *variable.unshard;
    if (unshard.recompute && backward_passes_ > 0) {
      // Equal values are gathered once. So without a barrier, the gathered parameter of an earlier forward pass would stay.
      note(kPhaseAttribute, fmt::format("forward {}", backward_passes_ + 1));
      value = ops::opt_barrier({value}).front();
    }
    note("tessera.unit", unshard.unit);
    if (!variable.name.empty()) note(kSubjectAttribute, variable.name);
    if (gradient_is_deferred(variable)) note(kPartialGradientAttribute, "true");
    if (!unshard.dummies.empty()) note(kDummyAttribute, unshard.dummies);
    const bool has_two_steps = unshard.recompute && unshard.kept;
    if (has_two_steps) {
      note(kUnshardAttribute, "false");
      value = ops::sharding_mark(value, row_sharding(*unshard.kept, is_row));
      if (!variable.name.empty()) into.set_name(value, program_name(variable.name) + ".kept");
    }
    note(kUnshardAttribute, unshard.recompute ? "true" : "false");
    value = ops::sharding_mark(value, row_sharding(unshard.gathered, is_row));
    if (!variable.name.empty()) into.set_name(value, program_name(variable.name) + ".gathered");
  }
  into.default_notes = before;
  return value;
}

Value Trace::gathered(const Tensor& tensor, Value stored) {
  const TensorImpl& variable = tensor.impl();
  const std::pair key(static_cast<const Node*>(variable.node.get()), gradient_is_deferred(variable));
  if (const auto found = gathered_.find(key); found != gathered_.end()) return entry_->value(found->second);
  const Value value = emit_gathered(variable, stored, false);
  gathered_[key] = value.id;
  return value;
}

void Trace::note_backward(Id first) {
  ++backward_passes_;
  std::erase_if(gathered_, [this](const auto& known) {
    const std::string* again = entry_->computation()[known.second].frontend_attribute(kUnshardAttribute);
    return again != nullptr && *again == "true";
  });
  if (capture_ == nullptr) return;
  capture_->takes_gradients = true;
  capture_->backward.emplace_back(first, entry_->computation().size());
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
