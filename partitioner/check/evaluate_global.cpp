// SPDX-License-Identifier: Apache-2.0
#include "check/evaluate_global.h"

#include <algorithm>
#include <map>
#include <optional>

#include "normalize/manual.h"
#include "tessera/base/text.h"
#include "tessera/ops/control_flow.h"

namespace tessera {
namespace {

bool is_manual_somewhere(const Program& program) {
  return has_manual_regions(program) ||
         std::any_of(program.computations.begin(), program.computations.end(), [](const ComputationRef& computation) {
           return std::any_of(computation->instructions.begin(), computation->instructions.end(), is_manual);
         });
}

// A sharding with the union of the manual axes of all borders through which values enter regions in the text; null if
// there are none. Values inside regions may have more manual axes, such as a partition-id with sharding={manual}.
std::optional<Sharding> manual_sharding(const Program& program) {
  std::optional<Sharding> out;
  for (const auto& computation : program.computations)
    for (const Instruction& instruction : computation->instructions) {
      if (manual_border(instruction) != ManualBorder::kEnter || !is_manual(instruction)) continue;
      if (!is_sharding_mark((*computation)[instruction.operands.front()]))
        continue;  // a border that normalize_manual added
      for (const Sharding& leaf : *instruction.sharding) {
        if (leaf.manual.empty() || (out && !(out->mesh == leaf.mesh))) continue;
        if (!out) out = leaf;
        out->manual = united(out->manual, leaf.manual);
      }
    }
  return out;
}

// Takes one result for all devices that differ only along manual axes. The results of a correct program are equal
// there; a program for which they differ must not pass. Results may only differ along axes that regions leave to the
// partitioner.
void share_along_manual_axes(const Program& program, std::vector<Literal>& results) {
  const auto regions = manual_sharding(program);
  if (!has_manual_regions(program) || !regions) return;
  std::vector<AxisRef> automatic;
  for (int a = 0; a < regions->mesh.axis_count(); ++a)
    if (!overlaps_any(regions->manual, regions->mesh.full_axis(a))) automatic.push_back(regions->mesh.full_axis(a));
  std::map<std::int64_t, Literal> first;  // by the coordinate along the automatic axes
  for (int device = 0; device < isize(results); ++device) {
    const std::int64_t place = regions->mesh.coordinate(regions->mesh.position_of(device), automatic);
    at(results, device) = first.try_emplace(place, at(results, device)).first->second;
  }
}

}  // namespace

std::vector<Literal> evaluate_global(const Program& program, const std::vector<Literal>& arguments,
                                     const EvaluateOptions& options) {
  if (!is_manual_somewhere(program)) return {evaluate(program, arguments, options)};
  const std::vector<std::vector<Literal>> everywhere(static_cast<std::size_t>(program.num_partitions), arguments);
  std::vector<Literal> results = evaluate_lockstep(program, everywhere, options);
  share_along_manual_axes(program, results);
  const auto first = results.front().leaves();
  const bool is_one = std::all_of(results.begin(), results.end(), [&](const Literal& result) {
    const auto own = result.leaves();
    return std::equal(own.begin(), own.end(), first.begin(), [](const Literal& a, const Literal& b) {
      return !a.type().is_array() || std::ranges::equal(a.bytes(), b.bytes());
    });
  });
  if (is_one) results.resize(1);
  return results;
}

}  // namespace tessera
