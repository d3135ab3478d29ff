// SPDX-License-Identifier: Apache-2.0
#include "reshard_insertion/reshard_notes.h"

#include <fmt/format.h>

#include <algorithm>

#include "normalize/manual.h"
#include "propagation/propagate.h"
#include "reshard_insertion/insert_reshards.h"
#include "tessera/ir/op_def.h"
#include "tessera/partitioner/explain/remedy.h"
#include "tessera/partitioner/reshard_insertion/partial_values.h"

namespace tessera {
namespace {

bool is_partial(const Instruction& instruction) {
  return instruction.sharding && std::any_of(instruction.sharding->begin(), instruction.sharding->end(),
                                             [](const Sharding& leaf) { return leaf.is_partial(); });
}

using RemedyKind = Remedy::Kind;

Remedy with_sharding(RemedyKind kind, const std::string& value, const Sharding& sharding, std::string detail = "") {
  return {
      .kind = kind, .value = value, .spec = sharding.str(), .mesh = sharding.mesh.str(), .detail = std::move(detail)};
}

Remedy summing_remedy(const ReshardReason& reason, const Sharding& from) {
  const Instruction& op = reason.made[summing_op(reason.made, reason.source)];
  if (op.op->role == Role::kParameter || op.op->role == Role::kGetTupleElement)
    return with_sharding(RemedyKind::kGiveSummed, annotatable_name(op), from.without_partial());
  Sharding axes;
  axes.mesh = from.mesh;
  axes.dims.push_back({from.partial, false, {}});
  return with_sharding(RemedyKind::kKeepDims, "", axes, fmt::format("{} %{}", op.op->name, shown_name(op)));
}

Remedy either(const std::string& one, const std::string& other) {
  return {.kind = RemedyKind::kChangeEither, .detail = fmt::format("{} or {}", one, other)};
}

// For a `value` that is a result of the computation.
Remedy remedy_of_result(const ReshardReason& reason, const std::string& name, bool given, const Sharding& from) {
  if (reason.cause == ReshardCause::kGivenResult)
    return given ? either("%" + name, "the result") : with_sharding(RemedyKind::kChange, "", from);
  if (name.empty()) return with_sharding(RemedyKind::kGiveSharding, "", from, reason.by);
  return with_sharding(RemedyKind::kAnnotateResult, name, from);
}

// For an op that computes its result with another sharding than the annotated one.
Remedy remedy_of_own_result(const ReshardReason& reason, Id op, const std::string& name, const Sharding& from) {
  const auto operands = reason.origins.given_operands(op);
  if (operands.empty()) return with_sharding(RemedyKind::kChange, name, from);
  return either(fmt::format("{}", fmt::join(operands, ", ")), fmt::format("%{} {}", name, reason.target.str()));
}

// The annotation that would avoid the reshard.
Remedy remedy_of(const ReshardReason& reason) {
  const Sharding& now = reason.made[reason.source].sharding->front();
  if (now.is_partial()) return summing_remedy(reason, now);
  const Id value = before_reshards(reason.made, reason.source);
  const auto origin = reason.origins.of(value);
  const bool given = reason.origins.is_given(origin);
  const std::string name = reason.origins.name(origin);
  if (reason.cause == ReshardCause::kResult || reason.cause == ReshardCause::kGivenResult)
    return remedy_of_result(reason, name, given, now.without_partial());
  if (name.empty())
    return {.kind = RemedyKind::kNone,
            .detail = fmt::format("%{} has no name that can be annotated", reason.made[value].name)};
  if (reason.mark >= 0 && reason.mark == origin.value) return remedy_of_own_result(reason, origin.value, name, now);
  if (!given && reason.target.is_tiled()) return with_sharding(RemedyKind::kAnnotate, name, reason.target);
  if (!given) return with_sharding(RemedyKind::kGiveSharding, name, reason.target, "%" + name);
  if (reason.mark < 0) return with_sharding(RemedyKind::kChange, name, reason.target);
  return either(fmt::format("%{} {}", name, now.str()),
                fmt::format("%{} {}", reason.origins.name({reason.mark, 0}), reason.target.str()));
}

void set(Notes& notes, std::string_view key, std::optional<std::string> value) {
  auto& list = notes.frontend_attributes;
  const auto found = std::find_if(list.begin(), list.end(), [&](const auto& item) { return item.first == key; });
  if (!value && found != list.end()) list.erase(found);
  if (!value) return;
  if (found != list.end())
    found->second = std::move(*value);
  else
    list.emplace_back(std::string(key), std::move(*value));
}

// The origin of the source's sharding.
std::string chosen_by(const ReshardReason& reason) {
  const Instruction& source = reason.made[reason.source];
  const auto origin = reason.origins.of(reason.source);
  const bool has_reason = source.frontend_attribute(kWhyAttribute) != nullptr ||
                          source.frontend_attribute(kReasonAttribute) != nullptr || is_partial(source);
  if (!has_reason && reason.origins.is_given(origin)) return "annotated";
  if (const std::string* why = reason.origins.why(origin); !has_reason && why != nullptr) return *why;
  return provenance(source);
}

}  // namespace

std::string shown_name(const Computation& made, const ValueOrigins& origins, Id id) {
  std::string shown = shown_name(made[id]);
  if (made[id].op->role != Role::kGetTupleElement || shown.find('/') != std::string::npos) return shown;
  const std::string name = origins.name(origins.of(id));
  return name.empty() ? shown : name;
}

Id before_reshards(const Computation& made, Id id) {
  while (made[id].op->role == Role::kCopy && made[id].frontend_attribute(kReasonAttribute) != nullptr)
    id = made[id].operands.front();
  return id;
}

Id summing_op(const Computation& made, Id id) {
  for (;;) {
    const auto& operands = made[id].operands;
    const auto next = std::find_if(operands.begin(), operands.end(), [&](Id o) { return is_partial(made[o]); });
    if (next == operands.end()) return id;
    id = *next;
  }
}

std::string computed_from(const Computation& made, const ValueOrigins& origins, const Instruction& instruction) {
  constexpr std::size_t kMostNamed = 3;
  std::vector<std::string> operands;
  for (const Id id : instruction.operands) {
    const Instruction& operand = made[id];
    if (!operand.type.is_array() || operand.type.ndim() == 0 || !operand.sharding) continue;
    operands.push_back(
        fmt::format("%{} {}", shown_name(made, origins, before_reshards(made, id)), operand.sharding->front().str()));
  }
  const bool is_truncated = operands.size() > kMostNamed;
  if (is_truncated) operands.resize(kMostNamed);
  return operands.empty()
             ? "as computed"
             : fmt::format("as computed from {}{}", fmt::join(operands, ", "), is_truncated ? ", ..." : "");
}

NotesRef reshard_notes(const NotesRef& notes, const ReshardReason& reason) {
  auto out = notes ? std::make_shared<Notes>(*notes) : std::make_shared<Notes>();
  out->other.clear();
  const Instruction& source = reason.made[reason.source];
  const std::string target = reason.target.str();
  const std::string name = reason.origins.name(reason.origins.of(before_reshards(reason.made, reason.source)));
  set(*out, kWhyAttribute, std::nullopt);
  set(*out, kNextAttribute, std::nullopt);
  set(*out, kOriginAttribute, name.empty() ? std::nullopt : std::optional(name));
  set(*out, kManualAxesAttribute, reason.region);
  set(*out, kConsumerAttribute, reason.by);
  set(*out, kReasonAttribute, fmt::format("{} must be {}", reason.by, target));
  set(*out, kFromAttribute,
      fmt::format("%{} {} ({})", shown_name(reason.made, reason.origins, reason.source), source.sharding->front().str(),
                  chosen_by(reason)));
  set(*out, kToAttribute, fmt::format("{} ({})", target, reason.by));
  set(*out, kRemedyAttribute, remedy_of(reason).attribute());
  return out;
}

std::string provenance(const Instruction& instruction) {
  if (const auto* why = instruction.frontend_attribute(kWhyAttribute)) return *why;
  if (const auto* reason = instruction.frontend_attribute(kReasonAttribute)) return *reason;
  if (is_partial(instruction)) {
    const auto role = instruction.op->role;
    if (role != Role::kParameter && role != Role::kGetTupleElement) return "as computed";
    return "annotated, " + unreduced_text(instruction.sharding->front());
  }
  const bool is_replicated = instruction.sharding && instruction.sharding->front().is_tiled() &&
                             instruction.sharding->front().used_axes().empty();
  return is_replicated ? "by default" : "annotated";
}

}  // namespace tessera
