// SPDX-License-Identifier: Apache-2.0
#include "pipeline/origins.h"

#include <algorithm>

#include "propagation/propagate.h"
#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"
#include "tessera/ops/control_flow.h"

namespace tessera {

Program with_origins(const Program& program) {
  Program out = program;
  const auto used = partitioned_computations(program);
  for (ComputationId c = 0; c < isize(program.computations); ++c) {
    if (!at(used, c) || c == program.entry) continue;
    auto computation = std::make_shared<Computation>(program[c]);
    for (Instruction& instruction : computation->instructions)
      instruction.notes = with_frontend_attribute(instruction.notes, kOriginAttribute,
                                                  fmt::format("{}/{}", computation->name, instruction.name));
    at(out.computations, c) = std::move(computation);
  }
  return out;
}

Program without_origins(const Program& program) {
  Program out = program;
  const auto has_origin = [](const Instruction& i) { return i.frontend_attribute(kOriginAttribute) != nullptr; };
  for (ComputationRef& ref : out.computations) {
    if (std::none_of(ref->instructions.begin(), ref->instructions.end(), has_origin)) continue;
    auto computation = std::make_shared<Computation>(*ref);
    for (Instruction& instruction : computation->instructions)
      if (has_origin(instruction))
        instruction.notes = with_frontend_attribute(instruction.notes, kOriginAttribute, std::nullopt);
    ref = std::move(computation);
  }
  return out;
}

std::string annotatable_name(const Instruction& instruction) {
  const auto* origin = instruction.frontend_attribute(kOriginAttribute);
  return origin != nullptr ? *origin : instruction.name;
}

std::string shown_name(const Instruction& instruction) {
  const auto* origin = instruction.frontend_attribute(kOriginAttribute);
  if (origin == nullptr || origin->find('/') == std::string::npos) return instruction.name;
  return *origin + (instruction.op->role == Role::kCopy && instruction.name.ends_with(kReshardSuffix)
                        ? std::string(kReshardSuffix)
                        : "");
}

std::string shown_value(const Instruction& instruction) {
  if (const auto* subject = instruction.frontend_attribute(kSubjectAttribute)) {
    const auto* unit = instruction.frontend_attribute("tessera.unit");
    const bool is_gathered = unit != nullptr && instruction.frontend_attribute(kUnshardAttribute) != nullptr;
    return is_gathered ? fmt::format("{} in unit {}", *subject, *unit) : *subject;
  }
  const std::string_view kind = is_sharding_mark(instruction) ? "annotated value" : instruction.op->name;
  return fmt::format("{} %{}", kind, shown_name(instruction));
}

std::string shown_result(const Computation& computation, int number) {
  if (const auto* names = computation[computation.root].frontend_attribute("tessera.result_names")) {
    const auto each = split(*names, ',');
    if (number < isize(each) && !at(each, number).empty()) return at(each, number);
  }
  return fmt::format("result {} of {}", number, computation.name);
}

bool is_derived(const Sharding& sharding) {
  return std::any_of(sharding.dims.begin(), sharding.dims.end(), [](const DimSharding& d) { return d.open; });
}

void ValueOrigins::set(const LeafValues& leaves, Id old) {
  for (int i = 0; i < isize(leaves); ++i) {
    const Id made = at(leaves, i).id;
    if (made >= isize(origins_)) origins_.resize(static_cast<std::size_t>(made) + 1);
    if (at(origins_, made).value < 0) at(origins_, made) = {old, i};
  }
}

ValueOrigins::Origin ValueOrigins::of(Id made) const {
  return made >= 0 && made < isize(origins_) ? at(origins_, made) : Origin{};
}

std::string ValueOrigins::name(const Origin& origin) const {
  if (origin.value < 0) return "";
  const Instruction& value = old_[origin.value];
  if (value.type.is_array()) return annotatable_name(value);
  for (const Id user : at(users_, origin.value)) {
    const Instruction& part = old_[user];
    if (part.op->role != Role::kGetTupleElement) continue;
    const int first = value.type.leaf_offset(index_of(part));
    if (origin.leaf < first || origin.leaf >= first + part.type.leaf_count()) continue;
    std::string found = name({user, origin.leaf - first});
    if (!found.empty()) return found;
  }
  return "";
}

const std::string* ValueOrigins::why(const Origin& origin) const {
  return origin.value < 0 ? nullptr : old_[origin.value].frontend_attribute(kWhyAttribute);
}

bool ValueOrigins::is_given(const Origin& origin) const {
  if (origin.value < 0) return false;
  const Instruction& value = old_[origin.value];
  const auto* why = value.frontend_attribute(kWhyAttribute);
  if (!value.sharding || (why != nullptr && *why == kNotAnnotated)) return false;
  const Sharding& sharding = at(*value.sharding, origin.leaf);
  return !is_derived(sharding) && (!sharding.dims.empty() || !sharding.is_tiled());
}

std::vector<std::string> ValueOrigins::given_operands(Id op) const {
  std::vector<std::string> out;
  for (const Id operand : old_[op].operands) {
    const Instruction& value = old_[operand];
    if (!value.type.is_array() || !is_given({operand, 0})) continue;
    std::string text = fmt::format("%{} {}", annotatable_name(value), value.sharding->front().str());
    if (std::find(out.begin(), out.end(), text) == out.end()) out.push_back(std::move(text));
  }
  return out;
}

}  // namespace tessera
