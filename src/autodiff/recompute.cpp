// SPDX-License-Identifier: Apache-2.0
#include "recompute.h"

#include <algorithm>

#include "tessera/autodiff/gradients.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/structural.h"

namespace tessera::autodiff {
namespace {

bool wants_recompute(const Instruction& instruction) {
  const std::string* text = instruction.frontend_attribute(kUnshardAttribute);
  return text != nullptr && *text == "true";
}

// Returns true if the cost of the instruction is at most proportional to the size of its result.
bool is_cheap(const Builder& builder, const Instruction& instruction) {
  const OpDef& op = *instruction.op;
  const bool movable =
      op.role == Role::kPlain || op.role == Role::kConstant || op.role == Role::kCopy || is_sharding_mark(instruction);
  if (has_side_effect(instruction) || !movable || !instruction.called.empty() || !instruction.type.is_array())
    return false;
  if (op.flops == nullptr || op.elementwise) return true;
  OpView view{op, {}, instruction.type, instruction.attributes, {}};
  for (const Id operand : instruction.operands) view.operands.push_back(builder[operand].type);
  return op.flops(view) == 0;
}

// The region in which an instruction is issued again, or null. A parameter that is gathered once for both passes enters
// the region.
const std::string* region_of(const Instruction& instruction) {
  const bool stays =
      instruction.op->role == Role::kParameter || is_unshard(instruction) || has_side_effect(instruction);
  return stays ? nullptr : instruction.frontend_attribute(kCheckpointAttribute);
}

}  // namespace

bool is_unshard(const Instruction& instruction) { return instruction.frontend_attribute(kUnshardAttribute) != nullptr; }

Recompute::Recompute(Builder& builder, Id size)
    : builder_(builder),
      again_(static_cast<std::size_t>(size), false),
      constant_(static_cast<std::size_t>(size), false) {
  std::vector<bool> from_unshard(again_.size(), false);
  bool any = false;
  for (Id id = 0; id < size; ++id) {
    const Instruction& instruction = builder[id];
    if (wants_recompute(instruction)) {
      again_[static_cast<std::size_t>(id)] = from_unshard[static_cast<std::size_t>(id)] = any = true;
      continue;
    }
    const auto& operands = instruction.operands;
    const bool is_constant = std::all_of(operands.begin(), operands.end(), [&](Id o) { return at(constant_, o); });
    const bool follows = any && std::all_of(operands.begin(), operands.end(),
                                            [&](Id o) { return at(constant_, o) || at(from_unshard, o); });
    if ((is_constant || follows) && is_cheap(builder, instruction)) {
      (is_constant ? constant_ : from_unshard)[static_cast<std::size_t>(id)] = true;
      if (!is_constant) again_[static_cast<std::size_t>(id)] = true;
    } else if (region_of(instruction) != nullptr) {
      again_[static_cast<std::size_t>(id)] = true;
    }
  }
}

void Recompute::gradient_arrived(const Instruction& instruction, Value gradient) {
  latest_gradient_ = gradient;
  if (const std::string* region = region_of(instruction)) first_in_region_.try_emplace(*region, gradient);
  const std::string* unit = instruction.frontend_attribute(kUnit);
  if (unit == nullptr || is_unshard(instruction)) return;
  first_gradient_.try_emplace(*unit, gradient);
}

Value Recompute::value_for_backward(Id id) {
  if (id >= isize(again_) || !at(again_, id)) return builder_.value(id);
  if (const auto found = issued_.find(id); found != issued_.end()) return found->second;
  const Value value = issue_again(id);
  issued_.emplace(id, value);
  return value;
}

// Delays an unshard until the first gradient of its unit.
void Recompute::tie_to_gradient(Instruction& unshard) {
  const std::string* unit = unshard.frontend_attribute(kUnit);
  const auto found = first_gradient_.find(unit != nullptr ? *unit : std::string());
  std::vector<Value> tied;
  for (const Id operand : unshard.operands) tied.push_back(builder_.value(operand));
  // A dummy does not wait for the gradient, but still prevents that the unshard of the forward pass is used again.
  if (!has_dummy(unshard, kDummyBarrier))
    tied.push_back(found != first_gradient_.end() ? found->second : latest_gradient_);
  tied = ops::opt_barrier(tied);
  for (std::size_t i = 0; i < unshard.operands.size(); ++i) unshard.operands[i] = tied[i].id;
}

Value Recompute::issue_again(Id id) {
  Instruction instruction = builder_[id];
  if (wants_recompute(instruction)) {
    tie_to_gradient(instruction);
  } else if (const std::string* region = region_of(instruction)) {
    return issue_region_again(std::move(instruction), std::string(*region));
  } else {
    for (Id& operand : instruction.operands) operand = value_for_backward(operand).id;
  }
  instruction.control_predecessors.clear();
  instruction.notes = with_frontend_attribute(instruction.notes, kPhaseAttribute, "backward");
  return builder_.append(std::move(instruction));
}

Value Recompute::issue_region_again(Instruction instruction, const std::string& region) {
  for (Id& operand : instruction.operands)
    operand = at(again_, operand) ? value_for_backward(operand).id : tied_to(region, operand).id;
  instruction.control_predecessors.clear();
  instruction.notes = with_frontend_attribute(instruction.notes, kCheckpointAttribute, std::nullopt);
  instruction.notes = with_frontend_attribute(instruction.notes, kPhaseAttribute, "backward");
  return builder_.append(std::move(instruction));
}

// Without the barrier, the values of the region would be found equal to those of the forward pass and kept. A barrier in
// front of a broadcast constant would keep its elements in memory from the forward pass on.
Value Recompute::tied_to(const std::string& region, Id id) {
  const Instruction& instruction = builder_[id];
  if (at(constant_, id) || instruction.op->role == Role::kConstant || !instruction.type.is_array())
    return builder_.value(id);
  auto& known = tied_[region];
  if (const auto found = known.find(id); found != known.end()) return found->second;
  const auto first = first_in_region_.find(region);
  const Value gradient = first != first_in_region_.end() ? first->second : latest_gradient_;
  const Value value = ops::opt_barrier({builder_.value(id), gradient}).front();
  known.emplace(id, value);
  return value;
}

}  // namespace tessera::autodiff
