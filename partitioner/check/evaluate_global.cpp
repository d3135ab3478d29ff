// SPDX-License-Identifier: Apache-2.0
#include "check/evaluate_global.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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

// For each device the first one that differs from it only along manual axes. Their results are equal in a correct
// program: results may only differ along axes that regions leave to the partitioner.
std::vector<int> first_along_manual_axes(const Program& program) {
  std::vector<int> out;
  for (int device = 0; device < program.num_partitions; ++device) out.push_back(device);
  const auto regions = manual_sharding(program);
  if (!has_manual_regions(program) || !regions) return out;
  std::vector<AxisRef> automatic;
  for (int a = 0; a < regions->mesh.axis_count(); ++a)
    if (!overlaps_any(regions->manual, regions->mesh.full_axis(a))) automatic.push_back(regions->mesh.full_axis(a));
  std::map<std::int64_t, int> first;  // by the coordinate along the automatic axes
  for (int& device : out) {
    const std::int64_t place = regions->mesh.coordinate(regions->mesh.position_of(device), automatic);
    device = first.try_emplace(place, device).first->second;
  }
  return out;
}

std::vector<Literal> evaluate_everywhere(const Program& program, const std::vector<Literal>& arguments,
                                         const EvaluateOptions& options) {
  const std::vector<std::vector<Literal>> everywhere(static_cast<std::size_t>(program.num_partitions), arguments);
  return evaluate_lockstep(program, everywhere, options);
}

bool differ(const Literal& a, const Literal& b) {
  const Literal left = a.as_reals();
  const Literal right = b.as_reals();
  const bool is_float = is_any_float(left.type().dtype());
  double largest = 0;
  double difference = 0;
  for (std::int64_t i = 0; i < left.type().element_count(); ++i) {
    const double x = element_as_double(left, i);
    const double y = element_as_double(right, i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    if (!is_float || !std::isfinite(x) || !std::isfinite(y)) return true;
    difference = std::max(difference, std::fabs(x - y));
    largest = std::max({largest, std::fabs(x), std::fabs(y)});
  }
  return difference > 0x1p-10 * largest;
}

}  // namespace

std::vector<Literal> evaluate_global(const Program& program, const std::vector<Literal>& arguments,
                                     const EvaluateOptions& options) {
  if (!is_manual_somewhere(program)) return {evaluate(program, arguments, options)};
  std::vector<Literal> results = evaluate_everywhere(program, arguments, options);
  // One result for all devices that differ only along manual axes: a program for which they differ must not pass.
  const std::vector<int> first_device = first_along_manual_axes(program);
  for (int device = 0; device < isize(results); ++device) at(results, device) = at(results, at(first_device, device));
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

std::string unequal_results(const Program& program, const std::vector<Literal>& arguments,
                            const EvaluateOptions& options) {
  if (!has_manual_regions(program)) return "";
  const std::vector<Literal> results = evaluate_everywhere(program, arguments, options);
  const auto wanted = results.front().leaves();
  for (int device = 1; device < isize(results); ++device) {
    const auto own = at(results, device).leaves();
    for (int leaf = 0; leaf < isize(own); ++leaf)
      if (at(own, leaf).type().is_array() && differ(at(own, leaf), at(wanted, leaf)))
        return fmt::format("result {} differs between devices 0 and {}", leaf, device);
  }
  return "";
}

}  // namespace tessera
