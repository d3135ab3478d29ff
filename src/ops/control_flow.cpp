// SPDX-License-Identifier: Apache-2.0
// call, fusion, while, conditional. Propagation, partitioning and differentiation follow data flow through them by
// their Role.
//
//   %y = f32[8] call(%x), to_apply=%square
//   %end = (s32[], f32[8]) while(%init), condition=%cond, body=%body
//   %r = f32[8] conditional(pred[] %p, %a, %b), true_computation=%t, false_computation=%f
//   %r = f32[8] conditional(s32[] %i, %a, %b, %c), branch_computations={%f0, %f1, %f2}
#include "tessera/ops/control_flow.h"

#include <algorithm>

#include "row_support.h"
#include "tessera/base/text.h"
#include "tessera/ops/rows.h"

namespace tessera {
namespace rows {
namespace {

void check_parameters(const Computation& computation, const std::vector<Type>& arguments) {
  require(computation.parameters.size() == arguments.size(), "%{} takes {} parameters, got {}", computation.name,
          computation.parameters.size(), arguments.size());
  const auto parameters = computation.parameter_types();
  for (std::size_t i = 0; i < arguments.size(); ++i)
    require(parameters[i] == arguments[i], "parameter {} of %{} is {}, but the operand is {}", i, computation.name,
            parameters[i], arguments[i]);
}

void check_called(const OpView& view, std::size_t count) {
  require(view.called.size() == count, "needs {} computation{}, got {}", count, count == 1 ? "" : "s",
          view.called.size());
}

// ---- call ----------------------------------------------------------------------------------------------------------

Type infer_call(const OpView& view) {
  check_called(view, 1);
  check_parameters(*view.called[0], view.operands);
  return declared_or(view, view.called[0]->root_type());
}

// ---- while ---------------------------------------------------------------------------------------------------------

Type infer_while(const OpView& view) {
  check_called(view, 2);
  const Type& state = view.operands[0];
  check_parameters(*view.called[0], {state});
  check_parameters(*view.called[1], {state});
  require(view.called[0]->root_type() == Type::scalar(DType::kPred), "the condition %{} must return pred[], returns {}",
          view.called[0]->name, view.called[0]->root_type());
  require(view.called[1]->root_type() == state, "the body %{} must return the loop's state {}, returns {}",
          view.called[1]->name, state, view.called[1]->root_type());
  return declared_or(view, state);
}

// ---- conditional ---------------------------------------------------------------------------------------------------

Type infer_conditional(const OpView& view) {
  const Type& index = scalar_operand(view, 0, "the branch index");
  const bool by_pred = index.dtype() == DType::kPred;
  require(by_pred || index.dtype() == DType::kS32, "the branch index must be pred[] or s32[], got {}", index);
  require(!view.called.empty(), "needs at least one branch");
  require(!by_pred || view.called.size() == 2, "needs two branches for a pred[], got {}", view.called.size());
  require(view.operands.size() == view.called.size() + 1, "needs one operand per branch: {} branches, {} operands",
          view.called.size(), view.operands.size() - 1);
  for (std::size_t b = 0; b < view.called.size(); ++b) {
    check_parameters(*view.called[b], {view.operands[b + 1]});
    require(view.called[b]->root_type() == view.called[0]->root_type(),
            "branches return different types: %{} {}, %{} {}", view.called[0]->name, view.called[0]->root_type(),
            view.called[b]->name, view.called[b]->root_type());
  }
  return declared_or(view, view.called[0]->root_type());
}

}  // namespace

// Autodiff differentiates the called computations.
const OpDef kCall = {.name = "call",
                     .max_operands = -1,
                     .role = Role::kCall,
                     .called = {"to_apply"},
                     .infer = infer_call,
                     .gradient_kind = GradientKind::kFunction,
                     .flops = no_flops};
// A call that a compiler created; kind and other attributes are kept as text.
const OpDef kFusion = {.name = "fusion",
                       .max_operands = -1,
                       .role = Role::kCall,
                       .called = {"calls"},
                       .infer = infer_call,
                       .type_inferable = false,
                       .gradient_kind = GradientKind::kFunction,
                       .flops = no_flops};
const OpDef kWhile = {.name = "while",
                      .min_operands = 1,
                      .max_operands = 1,
                      .role = Role::kWhile,
                      .updates_operand_in_place = true,
                      .called = {"condition", "body"},
                      .infer = infer_while,
                      .gradient_kind = GradientKind::kFunction,
                      .flops = no_flops};
const OpDef kConditional = {.name = "conditional",
                            .min_operands = 2,
                            .max_operands = -1,
                            .role = Role::kConditional,
                            .called = {"true_computation", "false_computation", "branch_computations"},
                            .infer = infer_conditional,
                            .gradient_kind = GradientKind::kFunction,
                            .flops = no_flops};

}  // namespace rows

bool has_dummy(const Instruction& instruction, std::string_view part) {
  const std::string* parts = instruction.frontend_attribute(kDummyAttribute);
  if (parts == nullptr) return false;
  const auto listed = split(*parts, ',');
  return std::find(listed.begin(), listed.end(), part) != listed.end();
}

namespace ops {

Value call(Builder& builder, const std::vector<Value>& operands, ComputationId computation) {
  return builder.emit(rows::kCall, operands, nullptr, {.called = {computation}});
}
Value while_loop(Value init, ComputationId condition, ComputationId body) {
  return init.builder->emit(rows::kWhile, {init}, nullptr, {.called = {condition, body}});
}
Value conditional(Value index, const std::vector<Value>& operands, const std::vector<ComputationId>& branches) {
  std::vector<Value> all = {index};
  all.insert(all.end(), operands.begin(), operands.end());
  return index.builder->emit(rows::kConditional, all, nullptr, {.called = branches});
}

}  // namespace ops
}  // namespace tessera
