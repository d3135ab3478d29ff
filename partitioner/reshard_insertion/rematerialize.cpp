// SPDX-License-Identifier: Apache-2.0
#include "reshard_insertion/rematerialize.h"

#include <algorithm>

#include "normalize/duplicate_cheap_values.h"
#include "propagation/factor_sharding.h"
#include "strategy/strategy.h"
#include "tessera/ops/rows.h"
#include "tessera/partitioner/reshard_planning/plan_reshard.h"

namespace tessera {
namespace {

constexpr std::size_t kMostSteps = 24;

bool may_be_repeated(const Instruction& instruction) {
  return instruction.op->role == Role::kPlain && instruction.op->evaluate != nullptr && instruction.type.is_array() &&
         !has_side_effect(instruction) && instruction.control_predecessors.empty() && instruction.sharding &&
         instruction.sharding->size() == 1 && instruction.sharding->front().is_tiled() &&
         instruction.sharding->front().manual.empty();
}

bool is_replicated_scalar(const Instruction& instruction) {
  return instruction.type.is_array() && instruction.type.ndim() == 0 && instruction.sharding &&
         instruction.sharding->front().is_tiled() && !instruction.sharding->front().is_partial();
}

}  // namespace

std::optional<Value> Rematerializer::rematerialized(Value leaf, const Sharding& target) {
  const Sharding& now = leaf.instruction().sharding->front();
  if (!target.is_tiled() || target.is_partial() || !is_computable_everywhere(leaf.id)) return std::nullopt;
  const double moved = reshard_cost(leaf.type(), now, target, machine_.links());
  if (moved == 0) return std::nullopt;
  Plan plan;
  if (!add(leaf.id, target, plan)) return std::nullopt;
  constexpr double kStart = 1e-7;  // latency of a collective, on any link
  const double work = plan.operations / machine_.flops_per_second(DType::kF32, WorkClass::kOther);
  if (work > kStart + machine_.seconds_of_moved(moved)) return std::nullopt;
  for (const Step& step : plan.steps) {
    Instruction again = step.is_copy ? copy_of(step.source) : builder_[step.source];
    for (std::size_t i = 0; i < step.operands.size(); ++i)
      if (const auto& wanted = step.operands[i]) again.operands[i] = there(again.operands[i], *wanted)->id;
    again.sharding = shardings_.shared(step.target);
    made_[step.source].emplace_back(step.target, builder_.append(std::move(again)));
  }
  return there(leaf.id, target);
}

bool Rematerializer::is_computable_everywhere(Id id) {
  follows_.resize(builder_.computation().instructions.size(), -1);
  if (at(follows_, id) >= 0) return at(follows_, id) != 0;
  const Computation& computation = builder_.computation();
  const Instruction& instruction = computation[id];
  const bool is_copy = instruction.op->role == Role::kCopy && instruction.type.is_array();
  bool follows = is_rematerializable(computation, instruction) && may_be_repeated(instruction);
  if (instruction.op->role == Role::kConstant) follows = instruction.type.is_array();
  if (!follows && !instruction.operands.empty() && (is_copy || may_be_repeated(instruction)))
    follows = std::all_of(instruction.operands.begin(), instruction.operands.end(), [&](Id operand) {
      return is_replicated_scalar(computation[operand]) || is_computable_everywhere(operand);
    });
  at(follows_, id) = follows ? 1 : 0;
  return follows;
}

Instruction Rematerializer::copy_of(Id id) const {
  Instruction copy;
  copy.op = &rows::kCopy;
  copy.type = builder_[id].type;
  copy.operands = {id};
  copy.name = builder_[id].name;
  return copy;
}

std::optional<Value> Rematerializer::there(Id id, const Sharding& target) {
  const Instruction& instruction = builder_[id];
  if (instruction.sharding->front() == target) return builder_.value(id);
  if (const auto made = made_.find(id); made != made_.end())
    for (const auto& [sharding, value] : made->second)
      if (sharding == target) return value;
  return instruction.op->role == Role::kCopy ? there(instruction.operands[0], target) : std::nullopt;
}

bool Rematerializer::add(Id id, const Sharding& target, Plan& plan) {
  if (there(id, target)) return true;
  const Instruction& instruction = builder_[id];
  if (instruction.op->role == Role::kCopy) return add(instruction.operands[0], target, plan);
  const bool is_repeated = is_computable_everywhere(id);  // a replicated scalar need not be computable
  const bool is_there = is_replicated_scalar(instruction) && instruction.sharding->front().manual == target.manual;
  if (!is_repeated && !is_there) return false;
  if (std::any_of(plan.steps.begin(), plan.steps.end(),
                  [&](const Step& step) { return step.source == id && step.target == target; }))
    return true;
  if (plan.steps.size() >= kMostSteps) return false;
  Step step{id, target, std::vector<std::optional<Sharding>>(is_repeated ? instruction.operands.size() : 0),
            !is_repeated};
  if (is_repeated && !is_rematerializable(builder_.computation(), instruction) && !add_operands(step, plan))
    return false;
  plan.steps.push_back(std::move(step));
  return true;
}

// Adds the operands of an op whose result has the target sharding if they have theirs. The op must sum nothing and read
// no halo.
bool Rematerializer::add_operands(Step& step, Plan& plan) {
  const Computation& computation = builder_.computation();
  const Instruction& instruction = computation[step.source];
  const OpView view = view_of(builder_.program().program(), computation, instruction);
  const FactorMap map = factor_map(view);
  const Mesh& mesh = step.target.mesh;
  const Strategy strategy = legal(map, project(map, map.results.front(), step.target));
  if (!map.windows.empty() || computed_sharding(mesh, map, 0, strategy) != step.target) return false;
  double parts = 1;
  for (int f = 0; f < isize(strategy); ++f) parts *= static_cast<double>(tiles_of(strategy, f));
  plan.operations += std::max(flops_of(view), static_cast<double>(instruction.type.element_count())) / parts;
  for (int i = 0; i < isize(instruction.operands); ++i) {
    const Id operand = at(instruction.operands, i);
    if (is_replicated_scalar(computation[operand])) continue;
    at(step.operands, i) = unproject(mesh, map, at(map.operands, i), strategy);
    if (!add(operand, *at(step.operands, i), plan)) return false;
  }
  return true;
}

}  // namespace tessera
