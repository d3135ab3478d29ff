// SPDX-License-Identifier: Apache-2.0
#include "check/rounding_spread.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>

#include "check/evaluate_global.h"
#include "check/rounding_changes.h"
#include "normalize/manual.h"
#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"
#include "tessera/tensor/narrow_dtype.h"

namespace tessera {
namespace {

// Whether the program has no communication, so that its runs can be evaluated as devices.
bool is_for_one_device(const Program& program) {
  return std::none_of(program.computations.begin(), program.computations.end(), [](const ComputationRef& computation) {
    return std::any_of(computation->instructions.begin(), computation->instructions.end(), [](const Instruction& i) {
      return i.op->role == Role::kCollective || i.op->role == Role::kPartitionId;
    });
  });
}

// The results of one round of changed runs, and of the unchanged one.
std::vector<Literal> changed_results(const Program& program, const std::vector<Literal>& arguments,
                                     const RoundingModel& model, int round, std::int64_t trip_limit) {
  std::set<std::string> stopped;
  EvaluateOptions how;
  how.trip_limit = trip_limit;
  how.stopped_loops = &stopped;
  if (!has_manual_regions(program) && is_for_one_device(program)) {
    Program runs = program;
    runs.num_partitions = kChangedRuns + 1;
    const RoundingChanges changes(runs, model, round);
    how.observe_step = [&](const EvaluatedStep& step, auto& results) { changes.apply_to_all(step, results); };
    return evaluate_lockstep(runs, std::vector<std::vector<Literal>>(kChangedRuns + 1, arguments), how);
  }
  const RoundingChanges changes(program, model, round);
  std::vector<Literal> out;
  for (int run = 0; run < kChangedRuns; ++run) {
    how.observe_step = [&](const EvaluatedStep& step, auto& results) {
      for (std::size_t device = 0; device < results.size(); ++device) changes.apply(step, run, device, results);
    };
    out.push_back(evaluate_global(program, arguments, how).front());
  }
  return out;
}

// Adds one value of an element.
void see(double value, double& low, double& high, double& kinds) {
  const auto add = [&](SeenKind kind) { kinds = static_cast<double>(static_cast<unsigned>(kinds) | kind); };
  if (std::isnan(value)) return add(kSeenNan);
  if (std::isinf(value)) return add(value > 0 ? kSeenInfinity : kSeenMinusInfinity);
  low = std::min(low, value);
  high = std::max(high, value);
}

SeenRange range_of_leaf(const std::vector<Literal>& values) {
  const Type& type = values.front().type();
  const Type numbers = type.with_dtype(is_complex(type.dtype()) ? DType::kC128 : DType::kF64);
  const auto size = static_cast<std::size_t>(values.front().as_reals().type().element_count());
  constexpr double kNone = std::numeric_limits<double>::infinity();
  std::vector<double> low(size, kNone);
  std::vector<double> high(size, -kNone);
  std::vector<double> kinds(size, 0);
  for (const Literal& value : values) {
    const Literal reals = value.as_reals();
    for (std::size_t i = 0; i < size; ++i)
      see(element_as_double(reals, static_cast<std::int64_t>(i)), low[i], high[i], kinds[i]);
  }
  const auto filled = [&](const std::vector<double>& with) {
    Literal out(numbers);
    if (size > 0) std::memcpy(out.mutable_bytes().data(), with.data(), size * sizeof(double));
    return out;
  };
  return {.low = filled(low), .high = filled(high), .kinds = filled(kinds)};
}

}  // namespace

std::vector<SeenRange> rounding_ranges(const Program& program, const std::vector<Literal>& arguments,
                                       const Literal& expected, const RoundingModel& model, int rounds,
                                       std::int64_t trip_limit) {
  std::vector<std::vector<Literal>> seen{expected.leaves()};
  for (int round = 0; round < rounds; ++round)
    for (const Literal& result : changed_results(program, arguments, model, round, trip_limit))
      seen.push_back(result.leaves());
  std::vector<SeenRange> out;
  for (std::int64_t leaf = 0; leaf < isize(seen.front()); ++leaf) {
    std::vector<Literal> here;
    for (const auto& leaves : seen) here.push_back(at(leaves, leaf));
    out.push_back(here.front().type().is_array() ? range_of_leaf(here) : SeenRange());
  }
  return out;
}

}  // namespace tessera
