// SPDX-License-Identifier: Apache-2.0
#include "reshard_notes.h"

#include <algorithm>

#include "insert_reshards.h"
#include "manual.h"
#include "propagate.h"
#include "tessera/ir/op_def.h"
#include "tessera/partitioner/addends.h"

namespace tessera {
namespace {

// The annotation that would spare the reshard.
std::string remedy(const ReshardReason& reason) {
  const Instruction& source = reason.written;
  const Sharding& from = reason.source.sharding->front();
  if (reason.cause == ReshardCause::kResult)
    return fmt::format("annotate the result %{} with {}", source.name, from.without_partial().str());
  if (!from.is_partial()) return fmt::format("annotate %{} with {}", source.name, reason.target.str());
  if (source.op->role == Role::kParameter || source.op->role == Role::kGetTupleElement)
    return fmt::format("give %{} summed, as {}", source.name, from.without_partial().str());
  Sharding axes;
  axes.mesh = from.mesh;
  axes.dims.push_back({from.partial, false, {}});
  return fmt::format("keep the dims that {} %{} sums over whole: take {} off its operands", source.op->name,
                     source.name, axes.str());
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

}  // namespace

NotesRef reshard_notes(const NotesRef& notes, const ReshardReason& reason) {
  auto out = notes ? std::make_shared<Notes>(*notes) : std::make_shared<Notes>();
  const std::string target = reason.target.str();
  set(*out, kWhyAttribute, std::nullopt);
  set(*out, kManualAxesAttribute, reason.region);
  set(*out, kReasonAttribute, fmt::format("{} must be {}", reason.by, target));
  set(*out, kFromAttribute,
      fmt::format("%{} {} ({})", reason.source.name, reason.source.sharding->front().str(), provenance(reason.source)));
  set(*out, kToAttribute, fmt::format("{} ({})", target, reason.by));
  set(*out, kRemedyAttribute, remedy(reason));
  return out;
}

std::string provenance(const Instruction& instruction) {
  if (const auto* why = instruction.frontend_attribute(kWhyAttribute)) return *why;
  if (const auto* reason = instruction.frontend_attribute(kReasonAttribute)) return *reason;
  const bool is_partial = instruction.sharding && instruction.sharding->front().is_partial();
  if (!is_partial) return "annotated";
  if (instruction.op->role != Role::kParameter && instruction.op->role != Role::kGetTupleElement) return "as computed";
  return "annotated, " + unreduced_text(instruction.sharding->front());
}

}  // namespace tessera
