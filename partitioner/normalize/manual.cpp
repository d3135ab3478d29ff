// SPDX-License-Identifier: Apache-2.0
#include "normalize/manual.h"

#include <algorithm>

#include "tessera/base/text.h"
#include "tessera/ops/control_flow.h"
#include "tessera/sharding/hlo_sharding.h"

namespace tessera {
using Axes = std::vector<AxisRef>;

Axes united(Axes a, const Axes& b) {
  for (const auto& axis : b)
    if (!overlaps_any(a, axis)) a.push_back(axis);
  std::sort(a.begin(), a.end());
  return a;
}

bool has_manual_regions(const Program& program) {
  for (const auto& computation : program.computations)
    for (const auto& instruction : computation->instructions)
      if (manual_border(instruction) != ManualBorder::kNone) return true;
  return false;
}

bool is_manual(const Instruction& instruction) {
  return instruction.sharding && std::any_of(instruction.sharding->begin(), instruction.sharding->end(),
                                             [](const Sharding& leaf) { return !leaf.manual.empty(); });
}

namespace {

struct RegionAxes {
  Axes of_arrays;
  Axes of_tokens;
  bool has_array = false;
  void add(const Instruction& value) {
    const auto types = value.type.leaves();
    for (int i = 0; i < isize(types); ++i) {
      Axes& axes = at(types, i).is_token() ? of_tokens : of_arrays;
      has_array = has_array || !at(types, i).is_token();
      if (value.sharding && i < isize(*value.sharding)) axes = united(std::move(axes), at(*value.sharding, i).manual);
    }
  }
};

// The axes of the region that contains the instruction. A token has no placement and may leave a region without a
// border, as in the state of a loop or the result of a branch that contains a region. So the arrays count: those of
// the result, else those of the operands.
Axes axes_of_region(const Computation& from, const Instruction& instruction) {
  RegionAxes found;
  found.add(instruction);
  for (const Id operand : instruction.operands)
    if (instruction.type.is_token()) found.add(from[operand]);
  return found.has_array ? found.of_arrays : found.of_tokens;
}

}  // namespace

Program without_manual_axes(const Program& program) {
  Program out = program;
  for (auto& computation : out.computations) {
    // Regions whose result is unused may consist only of instructions with side effects.
    const auto& all = computation->instructions;
    if (std::none_of(all.begin(), all.end(), is_manual)) continue;
    auto changed = std::make_shared<Computation>(*computation);
    for (auto& instruction : changed->instructions) {
      if (!instruction.sharding || instruction.sharding->empty()) continue;
      if (!is_manual(instruction)) continue;
      Shardings leaves = *instruction.sharding;
      const Axes axes = axes_of_region(*computation, instruction);
      for (auto& leaf : leaves) leaf.manual.clear();
      instruction.sharding = make_shardings(std::move(leaves));
      if (axes.empty()) continue;
      Sharding text = Sharding::replicated(program.meshes.front(), 0);
      text.manual = axes;
      instruction.notes = with_frontend_attribute(instruction.notes, kManualAxesAttribute, sdy_sharding_text(text));
    }
    computation = std::move(changed);
  }
  return out;
}

std::vector<AxisRef> manual_axes(const Program& program, const Instruction& instruction) {
  const auto* text = instruction.frontend_attribute(kManualAxesAttribute);
  return text == nullptr ? Axes{} : parse_sdy_shardings(*text, program.meshes).front().manual;
}

BorderShardings border_shardings(const Sharding& placement, Sharding inside, const Type& global, const Type& local) {
  Sharding outside = placement;
  for (int d = 0; d < placement.ndim(); ++d) {
    auto& inner = at(inside.dims, d).axes;
    const auto& outer = at(placement.dims, d).axes;
    const bool is_even = global.dim(d) == local.dim(d) * axes_size(outer) && local.dim(d) % axes_size(inner) == 0;
    if (!outer.empty() && !is_even) inner.clear();
    auto& both = at(outside.dims, d).axes;
    both.insert(both.end(), inner.begin(), inner.end());
    both = merged_axes(both);
  }
  return {std::move(inside), std::move(outside)};
}

}  // namespace tessera
