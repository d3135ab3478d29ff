// SPDX-License-Identifier: Apache-2.0
#include "reshard_insertion/consumer_shardings.h"

#include <algorithm>

#include "pipeline/origins.h"
#include "reshard_insertion/partial_operands.h"
#include "reshard_insertion/resharder.h"
#include "tessera/base/text.h"
#include "tessera/ops/control_flow.h"

namespace tessera {
namespace {

// Whether this is a constraint that the program places on an intermediate value.
bool is_sharding_constraint(const Instruction& instruction) {
  return is_sharding_mark(instruction) &&
         attributes_as<CustomCallAttributes>(instruction.attributes).target == "Sharding";
}

// By value: the result of is_stored_gradient().
std::vector<bool> ends_as_stored_gradient(const Program& program, ComputationId c,
                                          const std::vector<std::vector<Id>>& users, OpSignatures& signatures) {
  const Computation& computation = program[c];
  std::vector<bool> out(computation.instructions.size());
  const auto adds_up = [&](const Instruction& user) {
    const auto& factors = signatures.of(program, computation, user).map->factors;
    return std::any_of(factors.begin(), factors.end(), [](const Factor& f) { return f.kind == FactorKind::kReduce; });
  };
  for (Id id = computation.size() - 1; id >= 0; --id) {
    if (at(users, id).size() != 1) continue;
    const Instruction& user = computation[at(users, id).front()];
    at(out, id) = user.frontend_attribute(kBarrierAttribute) != nullptr ||
                  (at(out, at(users, id).front()) && user.op->role == Role::kPlain && !adds_up(user));
  }
  return out;
}

}  // namespace

ConsumerShardings::ConsumerShardings(const Program& program, ComputationId id,
                                     const std::vector<std::vector<Id>>& users, const Shardings* root,
                                     OpSignatures& signatures)
    : program_(program),
      old_(program[id]),
      users_(users),
      root_(root),
      is_gradient_(ends_as_stored_gradient(program, id, users, signatures)) {
  if (id == program.entry) stays_partial_ = ends_partial(program, old_, *root);
}

bool ConsumerShardings::is_unannotated_root(Id id) const {
  if (root_ == nullptr || old_[id].sharding->empty() || !is_derived(old_[id].sharding->front())) return false;
  if (id == old_.root) return true;
  const Instruction& root = old_[old_.root];
  return is_used_once(id, old_.root) && is_sharding_constraint(root) && !is_derived(root.sharding->front());
}

bool ConsumerShardings::is_used_once(Id id, Id by) const {
  return at(users_, id).size() == 1 && at(users_, id).front() == by;
}

ShardingRef ConsumerShardings::required(Id id) const {
  const ShardingRef& found = old_[id].sharding;
  if (found->size() != 1 || !is_derived(found->front()) || !old_[id].type.is_array()) return found;
  const auto bound = [&](const Sharding& target) { return make_sharding(target.closed()); };
  const auto& users = at(users_, id);
  if (id == old_.root) return root_ != nullptr ? bound(root_->front()) : found;
  if (users.size() != 1) return found;
  const Instruction& user = old_[users.front()];
  if (is_sharding_mark(user) && !is_derived(user.sharding->front())) return bound(user.sharding->front());
  if (users.front() != old_.root || user.op->role != Role::kTuple || root_ == nullptr) return found;
  int leaf = 0;
  for (const Id operand : user.operands) {
    if (operand == id) return bound(at(*root_, leaf));
    leaf += old_[operand].type.leaf_count();
  }
  return found;
}

bool ConsumerShardings::may_stay_partial(Id id) const {
  const auto& users = at(users_, id);
  if (stays_partial(id)) return true;
  if (id == old_.root || users.empty()) return false;
  const auto is_mark = [&](Id user) { return is_sharding_mark(old_[user]) && old_[user].sharding->size() == 1; };
  if (std::all_of(users.begin(), users.end(), is_mark)) {
    return std::all_of(users.begin(), users.end(),
                       [&](Id user) { return old_[user].sharding->front() == old_[users.front()].sharding->front(); });
  }
  if (users.size() != 1 || !takes_partial(program_, old_, users.front(), id)) return false;
  const Instruction& user = old_[users.front()];
  const bool passes_on =
      user.op->role == Role::kCopy && user.sharding->size() == 1 && is_derived(user.sharding->front());
  return !passes_on || may_stay_partial(users.front());
}

bool ConsumerShardings::is_reduced_by_constraint(Id id, const std::vector<Value>& operands) const {
  if (stays_partial(id)) return false;
  const Instruction& user = old_[at(users_, id).front()];
  if (!is_sharding_mark(user) || user.sharding->size() != 1) return false;
  const auto used = user.sharding->front().used_axes();
  return std::none_of(operands.begin(), operands.end(), [&](const Value& operand) {
    if (!operand.type().is_array()) return false;
    const auto& waits = sharding_of(operand).partial;
    return std::any_of(waits.begin(), waits.end(), [&](const AxisRef& axis) { return overlaps_any(used, axis); });
  });
}

}  // namespace tessera
