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

std::vector<Literal> changed_results(const Program& program, const std::vector<Literal>& arguments, double amount,
                                     std::int64_t trip_limit) {
  std::set<std::string> stopped;
  EvaluateOptions how;
  how.trip_limit = trip_limit;
  how.stopped_loops = &stopped;
  if (!has_manual_regions(program) && is_for_one_device(program)) {
    Program runs = program;
    runs.num_partitions = kChangedRuns;
    const RoundingChanges changes(runs, amount);
    how.observe_step = [&](const EvaluatedStep& step, auto& results) { changes.apply_to_all(step, results); };
    return evaluate_lockstep(runs, std::vector<std::vector<Literal>>(kChangedRuns, arguments), how);
  }
  const RoundingChanges changes(program, amount);
  std::vector<Literal> out;
  for (int run = 0; run < kChangedRuns; ++run) {
    how.observe_step = [&](const EvaluatedStep& step, auto& results) {
      for (std::size_t device = 0; device < results.size(); ++device) changes.apply(step, run, device, results);
    };
    out.push_back(evaluate_global(program, arguments, how).front());
  }
  return out;
}

double distance(const Literal& expected, const Literal& changed, std::int64_t i) {
  constexpr double kAnything = std::numeric_limits<double>::infinity();
  if (!is_any_float(expected.type().dtype()))
    return element_as_int(expected, i) == element_as_int(changed, i) ? 0 : kAnything;
  const double a = element_as_double(expected, i);
  const double b = element_as_double(changed, i);
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  return std::isfinite(a) && std::isfinite(b) ? std::fabs(a - b) : kAnything;
}

Literal spread_of_leaf(const Literal& expected, const std::vector<Literal>& changed) {
  const Type& type = expected.type();
  Literal out(type.with_dtype(is_complex(type.dtype()) ? DType::kC128 : DType::kF64));
  const Literal numbers = expected.as_reals();
  std::vector<double> most(static_cast<std::size_t>(numbers.type().element_count()), 0);
  for (const Literal& leaf : changed) {
    const Literal others = leaf.as_reals();
    for (std::int64_t i = 0; i < numbers.type().element_count(); ++i)
      at(most, i) = std::max(at(most, i), distance(numbers, others, i));
  }
  std::memcpy(out.mutable_bytes().data(), most.data(), most.size() * sizeof(double));
  return out;
}

}  // namespace

std::vector<Literal> rounding_spreads(const Program& program, const std::vector<Literal>& arguments,
                                      const Literal& expected, double amount, std::int64_t trip_limit) {
  std::vector<std::vector<Literal>> changed;
  for (const Literal& result : changed_results(program, arguments, amount, trip_limit))
    changed.push_back(result.leaves());
  std::vector<Literal> out;
  for (const Literal& leaf : expected.leaves()) {
    std::vector<Literal> here;
    for (const auto& leaves : changed) here.push_back(at(leaves, isize(out)));
    out.push_back(leaf.type().is_array() ? spread_of_leaf(leaf, here) : Literal());
  }
  return out;
}

}  // namespace tessera
