// SPDX-License-Identifier: Apache-2.0
#include "reshard_insertion/partial_operands.h"

#include <algorithm>

#include "pipeline/leaves.h"
#include "tessera/base/text.h"
#include "tessera/ops/control_flow.h"

namespace tessera {
namespace {

Linearity linearity_of(const OpView& view, int operand) {
  return view.op.linearity != nullptr ? view.op.linearity(view, operand) : Linearity::kNone;
}

bool passes(Linearity linearity, Reduction reduction) {
  switch (linearity) {
    case Linearity::kAny: return true;
    case Linearity::kLinear:
    case Linearity::kJointlyLinear: return reduction == Reduction::kSum;
    case Linearity::kMonotone: return reduction == Reduction::kMin || reduction == Reduction::kMax;
    case Linearity::kNone: break;
  }
  return false;
}

bool is_joint(Linearity linearity) { return linearity == Linearity::kJointlyLinear; }

bool is_partial_sum(const Sharding& sharding) { return sharding.is_partial() && sharding.reduction == Reduction::kSum; }

// Whether the op passes a sum on, regardless of the size of its result.
bool passes_sum(const OpView& view, const Instruction& user, Id value) {
  int uses = 0;
  for (int i = 0; i < isize(user.operands); ++i) {
    if (at(user.operands, i) != value) continue;
    ++uses;
    if (!passes(linearity_of(view, i), Reduction::kSum)) return false;
  }
  return uses == 1 || is_joint(linearity_of(view, 0));
}

// Whether all results of the root that are `value` are partial sums.
bool returns_sums(const Computation& computation, const Shardings& root, Id value) {
  int leaf = 0;
  for (const Id operand : computation[computation.root].operands) {
    if (operand == value && !is_partial_sum(at(root, leaf))) return false;
    leaf += computation[operand].type.leaf_count();
  }
  return true;
}

// The annotated sharding of a value; null if propagation found it, which leaves dims open.
const Sharding* given_sharding(const Instruction& instruction) {
  if (!instruction.sharding || instruction.sharding->size() != 1) return nullptr;
  const Sharding& sharding = instruction.sharding->front();
  const bool open =
      std::any_of(sharding.dims.begin(), sharding.dims.end(), [](const DimSharding& dim) { return dim.open; });
  return open || (sharding.dims.empty() && sharding.is_tiled()) ? nullptr : &sharding;
}

}  // namespace

PartialChoice choose_partial(const OpView& view, const std::vector<Sharding>& operands, const Mesh& mesh,
                             bool result_may_stay_partial) {
  PartialChoice out;
  out.operand_is_partial.assign(operands.size(), false);
  if (operands.size() != view.operands.size()) return out;  // tuple operands: reduce first
  std::vector<int> partial;
  for (int i = 0; i < isize(operands); ++i) {
    if (!at(operands, i).is_partial()) continue;
    if (!(at(operands, i).mesh == mesh) || !passes(linearity_of(view, i), at(operands, i).reduction)) return out;
    partial.push_back(i);
  }
  if (partial.empty()) return out;
  out.reduction = at(operands, partial.front()).reduction;
  const bool joint = is_joint(linearity_of(view, partial.front())) ||
                     (view.operands.size() > 1 && linearity_of(view, partial.front()) == Linearity::kAny);
  for (const int i : partial) {
    if (at(operands, i).reduction != out.reduction)
      return {{}, Reduction::kSum, std::vector<bool>(operands.size(), false)};
    for (const auto& axis : at(operands, i).partial)
      if (!overlaps_any(out.axes, axis)) out.axes.push_back(axis);
  }
  std::sort(out.axes.begin(), out.axes.end());
  // Joint ops need all operands partial or replicated over an axis. Operands that are sharded over the axis would have
  // to be gathered, so over such axes the partial operands are reduced first.
  const auto tiled = [&](const AxisRef& axis) {
    return std::any_of(operands.begin(), operands.end(), [&](const Sharding& operand) {
      return operand.mesh == mesh && overlaps_any(operand.without_partial().used_axes(), axis);
    });
  };
  if (!joint) {
    // The op is linear in each operand alone, so only one operand may be partial.
    if (partial.size() > 1 || std::any_of(out.axes.begin(), out.axes.end(), tiled))
      return {{}, Reduction::kSum, std::vector<bool>(operands.size(), false)};
    // Reduce first if the result is larger, as when the maximum of a row is broadcast along the row.
    const std::int64_t bytes = at(view.operands, partial.front()).byte_size();
    if (!result_may_stay_partial && view.result.is_array() && view.result.byte_size() > bytes)
      return {{}, Reduction::kSum, std::vector<bool>(operands.size(), false)};
    at(out.operand_is_partial, partial.front()) = true;
    return out;
  }
  std::erase_if(out.axes, tiled);
  const auto still_partial = std::count_if(partial.begin(), partial.end(), [&](int i) {
    return std::any_of(out.axes.begin(), out.axes.end(),
                       [&](const AxisRef& axis) { return overlaps_any(at(operands, i).partial, axis); });
  });
  if (still_partial == 0 || (still_partial == 1 && !result_may_stay_partial))
    return {{}, Reduction::kSum, std::vector<bool>(operands.size(), false)};
  for (int i = 0; i < isize(operands); ++i) {
    const auto linearity = linearity_of(view, i);
    at(out.operand_is_partial, i) = is_joint(linearity) || linearity == Linearity::kAny;
  }
  return out;
}

bool takes_partial(const Program& program, const Computation& computation, Id user, Id value) {
  const auto& instruction = computation[user];
  const auto role = instruction.op->role;
  if (role == Role::kCopy || is_sharding_mark(instruction)) return true;
  if (role != Role::kPlain) return false;
  const OpView view = view_of(program, computation, instruction);
  if (!view.result.is_array() || view.result.byte_size() > computation[value].type.byte_size()) return false;
  return passes_sum(view, instruction, value);
}

std::vector<bool> ends_partial(const Program& program, const Computation& computation, const Shardings& root) {
  std::vector<bool> out(computation.instructions.size(), false);
  if (std::none_of(root.begin(), root.end(), is_partial_sum)) return out;
  const auto users = computation.users();
  const auto ends_so = [&](Id user, Id value) {
    const Instruction& instruction = computation[user];
    const auto role = instruction.op->role;
    if (user == computation.root && role == Role::kTuple) return returns_sums(computation, root, value);
    if (!instruction.type.is_array()) return false;
    const bool moves_it = role == Role::kCopy || is_sharding_mark(instruction);
    if (!moves_it &&
        (role != Role::kPlain || !passes_sum(view_of(program, computation, instruction), instruction, value)))
      return false;
    const Sharding* given = given_sharding(instruction);
    return given != nullptr ? is_partial_sum(*given) : static_cast<bool>(at(out, user));
  };
  for (Id id = computation.size() - 1; id >= 0; --id) {
    if (!computation[id].type.is_array()) continue;
    const auto& readers = at(users, id);
    const bool is_result = id == computation.root && is_partial_sum(root.front());
    at(out, id) = (is_result || (id != computation.root && !readers.empty())) &&
                  std::all_of(readers.begin(), readers.end(), [&](Id user) { return ends_so(user, id); });
  }
  return out;
}

}  // namespace tessera
