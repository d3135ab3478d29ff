// SPDX-License-Identifier: Apache-2.0
#include "reverse_pass.h"

#include <algorithm>
#include <optional>

#include "tessera/autodiff/gradient_context.h"
#include "tessera/autodiff/gradients.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"

namespace tessera::autodiff {
namespace {

// Gradients flow through values of a float or complex type. The gradient of a complex value is d/d(re) + i d/d(im).
bool is_float_array(const Type& type) {
  return type.is_array() && (is_float(type.dtype()) || is_complex(type.dtype()));
}
bool has_complex_leaf(const Type& type) {
  const auto leaves = type.leaves();
  return std::any_of(leaves.begin(), leaves.end(), [](const Type& t) { return t.is_array() && is_complex(t.dtype()); });
}

// The gradients of products with complex factors would need a conjugate. Therefore only ops that move complex elements,
// add them, or extract their parts are differentiated.
bool is_defined_on_complex(const OpView& view) {
  const bool touches =
      has_complex_leaf(view.result) || std::any_of(view.operands.begin(), view.operands.end(), has_complex_leaf);
  if (!touches) return true;
  for (int i = 0; i < isize(view.operands); ++i) {
    const Linearity linearity = view.op.linearity != nullptr ? view.op.linearity(view, i) : Linearity::kNone;
    if (linearity != Linearity::kAny && linearity != Linearity::kJointlyLinear) return false;
  }
  return true;
}

// Adds the op and its location to an error in the gradient of an op.
[[noreturn]] void rethrow_at(Error& error, const Instruction& instruction) {
  const std::string source = instruction.source().empty() ? "unknown source" : instruction.source();
  const std::string where =
      instruction.notes && !instruction.notes->op_name.empty() ? " in " + instruction.notes->op_name : "";
  error.prefix(fmt::format("gradient of {}: ", instruction.op->name));
  throw error.note_place(
      fmt::format("  at   %{}: {}    {}{}", instruction.name, instruction.type.str(), source, where));
}

// Returns the sharding in which the operand of an unshard is stored: the sharding of the operand, or, if the operand is
// an elementwise function (a cast) of another value, the sharding of that value.
ShardingRef storage_sharding(const Builder& builder, Id id) {
  while (true) {
    const Instruction& instruction = builder[id];
    const bool is_step = is_unshard(instruction);  // the first step of an unshard in two steps
    const bool through = is_step || (instruction.operands.size() == 1 &&
                                     (instruction.op->elementwise || instruction.op->role == Role::kCopy));
    if ((instruction.sharding && !is_step) || !through) return instruction.sharding;
    id = instruction.operands[0];
  }
}

// Returns the element type in which the gradients of a value are added up, or nothing for a tuple.
std::optional<DType> sum_type(const Instruction& instruction) {
  if (!instruction.type.is_array()) return std::nullopt;
  const std::string* named = instruction.frontend_attribute(kSumTypeAttribute);
  return named != nullptr ? dtype_from_name(*named) : instruction.type.dtype();
}

// Returns the notes without the attributes that apply to the forward instruction only. The attribute of the unit stays.
NotesRef without_forward_marks(const NotesRef& notes) {
  const auto is_kept = [](const auto& attribute) { return attribute.first == kUnit; };
  if (!notes) return notes;
  const auto& marks = notes->frontend_attributes;
  if (notes->other.empty() && std::all_of(marks.begin(), marks.end(), is_kept)) return notes;
  auto out = std::make_shared<Notes>(*notes);
  out->other.clear();
  std::erase_if(out->frontend_attributes, [&](const auto& attribute) { return !is_kept(attribute); });
  return out;
}

// Restores the builder's default notes at the end of a scope.
class NotesScope {
 public:
  explicit NotesScope(Builder& builder) : builder_(builder), before_(builder.default_notes) {}
  ~NotesScope() { builder_.default_notes = before_; }
  NotesScope(const NotesScope&) = delete;
  NotesScope& operator=(const NotesScope&) = delete;

 private:
  Builder& builder_;
  NotesRef before_;
};

}  // namespace

bool has_float_leaf(const Type& type) {
  if (!type.is_tuple()) return is_float_array(type);
  return std::any_of(type.elements().begin(), type.elements().end(), has_float_leaf);
}

std::vector<LeafGradients> differentiate(Builder& builder, Value root, const LeafGradients& d_root,
                                         const std::vector<Value>& wrt) {
  ReversePass pass(builder, root, wrt);
  pass.arrive_leaves(root.id, d_root);
  pass.run();
  std::vector<LeafGradients> out;
  for (const Value& value : wrt) out.push_back(pass.gradients_of(value));
  return out;
}

ReversePass::ReversePass(Builder& builder, Value root, const std::vector<Value>& wrt)
    : builder_(builder), root_(root.id), recompute_(builder, root.id + 1), regions_(builder) {
  const auto size = static_cast<std::size_t>(root.id) + 1;
  depends_.resize(size, false);
  flows_.resize(size, false);
  gradients_.resize(size);
  find_dependents(wrt);
}

void ReversePass::find_dependents(const std::vector<Value>& wrt) {
  first_ = root_ + 1;
  for (const Value& value : wrt) {
    ensure(value.builder == &builder_, "the gradient with respect to a value of another computation is not defined");
    if (value.id > root_) continue;
    depends_[static_cast<std::size_t>(value.id)] = has_float_leaf(value.type());
    first_ = std::min(first_, value.id);
  }
  for (Id id = first_; id <= root_; ++id) {
    const Instruction& instruction = builder_[id];
    if (instruction.op->gradient_kind == GradientKind::kZero || !has_float_leaf(instruction.type)) continue;
    if (instruction.frontend_attribute("tessera.stop_gradient") != nullptr) continue;
    const bool flows = std::any_of(instruction.operands.begin(), instruction.operands.end(),
                                   [&](Id operand) { return at(depends_, operand); });
    if (!flows) continue;
    flows_[static_cast<std::size_t>(id)] = depends_[static_cast<std::size_t>(id)] = true;
  }
}

void ReversePass::arrive(Id value, int leaf, Value gradient) {
  if (gradient.is_null() || value > root_ || !depends(value)) return;
  gradient = regions_.for_value(value, gradient);
  if (const auto wide = sum_type(builder_[value])) gradient = ops::convert(gradient, *wide);
  auto& slots = at(gradients_, value);
  if (slots.empty()) slots.resize(static_cast<std::size_t>(builder_[value].type.leaf_count()));
  Value& slot = at(slots, leaf);
  slot = slot.is_null() ? gradient : ops::add(slot, gradient);
}

void ReversePass::arrive_leaves(Id value, const LeafGradients& gradients) {
  for (int leaf = 0; leaf < isize(gradients); ++leaf) arrive(value, leaf, at(gradients, leaf));
}

LeafGradients ReversePass::gradients_of(Value value) const {
  const auto leaves = static_cast<std::size_t>(value.type().leaf_count());
  if (value.id > root_ || at(gradients_, value.id).empty()) return LeafGradients(leaves);
  return at(gradients_, value.id);
}

void ReversePass::run() {
  const NotesScope scope(builder_);
  for (Id id = root_; id >= first_; --id)
    if (at(flows_, id) && !at(gradients_, id).empty()) step(id);
}

NotesRef ReversePass::backward_notes(const NotesRef& notes) {
  const auto [entry, fresh] = notes_.try_emplace(notes.get());
  if (fresh) entry->second = without_forward_marks(notes);
  return entry->second;
}

void ReversePass::step(Id id) {
  const Instruction instruction = builder_[id];  // a copy, because the builder grows
  const LeafGradients arrived = at(gradients_, id);
  builder_.default_notes = backward_notes(instruction.notes);
  const auto first = std::find_if(arrived.begin(), arrived.end(), [](const Value& value) { return !value.is_null(); });
  if (first == arrived.end()) return;
  recompute_.gradient_arrived(instruction, *first);
  if (is_unshard(instruction)) return step_unshard(instruction, *first);
  switch (instruction.op->role) {
    case Role::kTuple:
    case Role::kOptBarrier: {
      auto next = arrived.begin();
      for (const Id operand : instruction.operands) {
        const int leaves = builder_[operand].type.leaf_count();
        arrive_leaves(operand, {next, next + leaves});
        next += leaves;
      }
      return;
    }
    case Role::kGetTupleElement: {
      const Id tuple = instruction.operands[0];
      const int offset = builder_[tuple].type.leaf_offset(attributes_as<IndexAttributes>(instruction.attributes).index);
      for (int leaf = 0; leaf < isize(arrived); ++leaf) arrive(tuple, offset + leaf, at(arrived, leaf));
      return;
    }
    default: break;
  }
  try {
    switch (instruction.op->role) {
      case Role::kCall: return step_call(*this, id, instruction, arrived);
      case Role::kConditional: return step_conditional(*this, instruction, arrived);
      case Role::kWhile: return step_while(*this, instruction, arrived);
      default: break;
    }
    if (instruction.op->gradient_kind == GradientKind::kForm) return step_form(*this, instruction, arrived);
    step_by_row(id, instruction);
  } catch (InternalError&) {
    throw;
  } catch (Error& error) {
    rethrow_at(error, instruction);
  }
}

void ReversePass::step_unshard(const Instruction& instruction, Value gradient) {
  const Id operand = instruction.operands[0];
  const ShardingRef storage = storage_sharding(builder_, operand);
  const bool stays_partial = instruction.frontend_attribute(kPartialGradientAttribute) != nullptr;
  if (storage && storage->size() == 1 && !stays_partial) {
    // The shardings of weights must not reach activations through the gradients of the weights.
    gradient = ops::sharding_barrier(gradient, storage->front());
    if (const std::string* subject = instruction.frontend_attribute(kSubjectAttribute))
      builder_.set_notes(gradient, with_frontend_attribute(gradient.instruction().notes, kSubjectAttribute,
                                                           "gradient of " + *subject));
    if (const std::string* dummies = instruction.frontend_attribute(kDummyAttribute))
      builder_.set_notes(gradient, with_frontend_attribute(gradient.instruction().notes, kDummyAttribute, *dummies));
  }
  arrive(operand, 0, gradient);
}

void ReversePass::step_by_row(Id id, const Instruction& instruction) {
  const OpDef& op = *instruction.op;
  require(op.gradient_kind != GradientKind::kNone,
          "this op has no gradient, but the loss depends on its operand through it: detach() the operand, or define a "
          "gradient with custom_gradient()");
  ensure(op.gradient != nullptr, "{}: the row has no gradient function", op.name);
  OpView view{op, {}, instruction.type, instruction.attributes, {}};
  for (const ComputationId callee : instruction.called)
    view.called.push_back(at(builder_.program().program().computations, callee));
  GradientContext context{builder_, view, {}, {}, at(gradients_, id), {}};
  for (const Id operand : instruction.operands) {
    view.operands.push_back(builder_[operand].type);
    context.operands.push_back(recompute_.value_for_backward(operand));
    context.needed.push_back(depends(operand));
    context.sum_types.push_back(sum_type(builder_[operand]).value_or(DType::kF32));
  }
  require(is_defined_on_complex(view), "its gradient is not defined for complex elements");
  context.result = recompute_.value_for_backward(id);
  const std::vector<Value> flowing = op.gradient(context);
  ensure(flowing.size() == instruction.operands.size(), "{}: {} gradients for {} operands", op.name, flowing.size(),
         instruction.operands.size());
  for (int i = 0; i < isize(flowing); ++i) {
    const Id operand = at(instruction.operands, i);
    if (at(flowing, i).is_null() || !depends(operand)) continue;
    const Type& type = builder_[operand].type;
    ensure(at(flowing, i).type() == type || at(flowing, i).type() == type.with_dtype(context.sum_type(i)),
           "{}: the gradient of operand {} is {}, the operand {}", op.name, i, at(flowing, i).type(), type);
    arrive(operand, 0, at(flowing, i));
  }
}

}  // namespace tessera::autodiff
