// SPDX-License-Identifier: Apache-2.0
#include "tessera/partitioner/check/check.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "check/compare_results.h"
#include "check/evaluate_global.h"
#include "check/make_inputs.h"
#include "check/rounding_bounds.h"
#include "check/rounding_spread.h"
#include "check/summand_magnitudes.h"
#include "check/widen_to_double.h"
#include "explain/explain.h"
#include "localize/localize.h"
#include "normalize/manual.h"
#include "pipeline/leaves.h"
#include "tessera/base/text.h"
#include "tessera/ops/elided_constants.h"
#include "tessera/ops/evaluate.h"
#include "tessera/passes/passes.h"

namespace tessera {
namespace {

// The two programs in the form in which they are evaluated.
struct Sides {
  Program global;
  Program partitioned;
  Program given;         // the global program in its own types
  bool is_wide = false;  // the other two are in double precision
};

// Lockstep evaluation checks whether both programs compute the same function, regardless of rounding, so it uses double
// precision. A runtime uses the given types.
Sides sides_of(const Program& text, const Program& partitioned, const CheckOptions& options) {
  const Program given = make_synchronous(text);
  Program global = without_replica_collectives(normalize_manual(given));
  if (!options.run) {
    auto wide = with_wide_floats(global);
    auto wide_partitioned = with_wide_floats(partitioned);
    if (wide && wide_partitioned) return {std::move(*wide), std::move(*wide_partitioned), std::move(global), true};
  }
  return {global, partitioned, global, false};
}

bool has_half_floats(const Program& program) {
  return std::any_of(program.computations.begin(), program.computations.end(), [](const ComputationRef& computation) {
    return std::any_of(computation->instructions.begin(), computation->instructions.end(),
                       [](const Instruction& i) { return i.type.is_array() && i.type.dtype() == DType::kF16; });
  });
}

// Whether all results, or at least half of them, are finite.
bool is_finite_enough(const Literal& result, bool all_of_it) {
  std::int64_t finite = 0;
  std::int64_t all = 0;
  for (const auto& leaf : result.leaves()) {
    if (!leaf.type().is_array() || !is_float(leaf.type().dtype())) continue;
    for (std::int64_t i = 0; i < leaf.type().element_count(); ++i) {
      ++all;
      finite += std::isfinite(element_as_double(leaf, i)) ? 1 : 0;
    }
  }
  return all_of_it ? finite == all : finite * 2 >= all;
}

std::vector<Literal> widened(std::vector<Literal> values) {
  for (Literal& value : values) value = with_wide_floats(value);
  return values;
}

struct Inputs {
  std::vector<Literal> arguments;
  std::vector<Literal> given;      // in the module's types
  std::vector<Literal> expected;   // one for all devices, or one per device
  std::vector<double> magnitudes;  // by leaf of the result: the largest summand
  double unit = 0;                 // partial arguments are multiples of this
};

// Draws inputs again while most results are not finite. With f16, it draws smaller inputs while any result is not
// finite, because sums may exceed the range in one order only. `text`: the module, whose parameter types are drawn;
// `global`: its entry with all shardings.
Inputs draw_inputs(const Sides& sides, const Program& text, const Computation& global, const CheckOptions& options,
                   CheckReport& report) {
  std::set<std::string> stopped;
  EvaluateOptions how;
  how.trip_limit = options.trip_limit;
  how.stopped_loops = options.run ? nullptr : &stopped;
  const bool small_range = has_half_floats(sides.global);
  double scale = 1;
  Inputs out;
  constexpr int kMostDraws = 5;
  for (;; ++report.input_draws) {
    const std::size_t seed = report.input_draws == 1
                                 ? options.seed
                                 : hash_mix(options.seed, static_cast<std::size_t>(report.input_draws - 1));
    stopped.clear();
    Magnitudes magnitudes(sides.global);
    how.observe = [&](std::int64_t, const Computation& computation, Id id, const Literal& value) {
      magnitudes.observe(computation, id, value);
    };
    out.arguments = seeded_arguments(text, seed, scale);
    spread_integers(out.arguments, seed);
    out.unit = unit_of_partial_values(scale);
    make_divisible(out.arguments, global, out.unit);
    out.given = out.arguments;
    if (sides.is_wide) out.arguments = widened(std::move(out.arguments));
    out.expected = evaluate_global(sides.global, out.arguments, how);
    out.magnitudes.clear();
    for (int leaf = 0; leaf < out.expected.front().type().leaf_count(); ++leaf)
      out.magnitudes.push_back(magnitudes.of_result(leaf));
    if (is_finite_enough(out.expected.front(), small_range) || report.input_draws == kMostDraws) break;
    if (small_range) scale /= 4;
  }
  for (const std::string& name : stopped)
    report.stopped_loops.push_back(fmt::format("while %{}, global program", name));
  return out;
}

Dims parse_dims(const std::string& text) {
  Dims dims;
  for (const auto& part : split(text, ',')) dims.push_back(std::stoll(part));
  return dims;
}

void observe(std::int64_t device, const Computation& computation, Id id, Literal& value) {
  const auto& instruction = computation[id];
  const auto* dims = instruction.frontend_attribute(kGlobalDimsAttribute);
  if (dims == nullptr || !instruction.sharding || !instruction.type.is_array()) return;
  poison_padding(value, Type::array(instruction.type.dtype(), parse_dims(*dims)), instruction.sharding->front(),
                 device);
}

// Evaluates in lockstep and poisons the padding after every instruction.
std::vector<Literal> run_poisoned(const Program& program, const std::vector<std::vector<Literal>>& shards,
                                  const CheckOptions& options, CheckReport& report) {
  std::set<std::string> stopped;
  EvaluateOptions how;
  how.trip_limit = options.trip_limit;
  how.stopped_loops = &stopped;
  how.observe = observe;
  auto results = evaluate_lockstep(program, shards, how);
  for (const std::string& name : stopped)
    report.stopped_loops.push_back(fmt::format("while %{}, partitioned program", name));
  return results;
}

// Whether an operand has elements of 16 bits or fewer, as those of compressed collectives.
bool carries_little(const Computation& computation, const Instruction& collective) {
  constexpr std::int64_t kMostBytes = 2;
  return std::any_of(collective.operands.begin(), collective.operands.end(), [&](Id id) {
    const Type& type = computation[id].type;
    return type.is_array() && dtype_size(type.dtype()) <= kMostBytes;
  });
}

// The relative error that compressed collectives may cause: half a unit in the last place of bf16 (8 bits), or half of
// one of the 127 steps of an int8 block, doubled for sums of rounded values; multiplied by how often such collectives
// run.
double rounded_by_collectives(const Program& partitioned, bool is_wide, const CheckOptions& options) {
  double each = 0;
  if (options.carries_bf16 && !is_wide) each = 0x1p-8;
  if (options.carries_int8) each = 0x1p-7;
  if (each == 0) return 0;
  const Program program = make_synchronous(partitioned);
  const std::vector<double> counts = run_counts(program);
  double runs = 0;
  for (ComputationId c = 0; c < isize(program.computations); ++c)
    for (const Instruction& instruction : program[c].instructions)
      if (instruction.op->role == Role::kCollective && carries_little(program[c], instruction)) runs += at(counts, c);
  return each * runs;
}

// By leaf of the result. The rounding of the module's types counts if values are computed in these types: by a runtime,
// or because constants were folded in them, which the tail of a distribution amplifies.
std::vector<Tolerance> tolerances_of(const Sides& sides, const Inputs& inputs, const CheckOptions& options) {
  std::vector<Tolerance> out;
  double relative = relative_bound_of(sides.global);
  if (sides.is_wide) relative = relative_bound_of_wide(sides.global, sides.partitioned);
  for (const double magnitude : inputs.magnitudes) out.push_back({.relative = relative, .magnitude = magnitude});
  const auto wide = options.run ? with_wide_floats(sides.given) : std::nullopt;
  if (!wide && !(sides.is_wide && rounds(relative))) return out;
  EvaluateOptions how;
  how.trip_limit = options.trip_limit;
  std::set<std::string> stopped;
  if (!options.run) how.stopped_loops = &stopped;
  const auto expected = inputs.expected.front().leaves();
  const auto other = wide ? evaluate_global(*wide, widened(inputs.given), how).front().leaves()
                          : evaluate_global(sides.given, inputs.given, how).front().leaves();
  for (int leaf = 0; leaf < isize(expected); ++leaf) {
    if (wide) at(out, leaf).relative = relative_bound_with_noise(sides.given);
    if (at(expected, leaf).type().is_array())
      at(out, leaf).absolute = absolute_bound_from(at(expected, leaf), at(other, leaf));
  }
  return out;
}

// How much rounding_ranges() changes inputs and roundings of the unpartitioned program. The changes are above the
// rounding of inputs and well below the effect of a fault. In double precision they are far above any rounding. In the
// module's types they are hardly larger, so that larger numbers may be noise.
RoundingModel model_of(const Sides& sides, double relative, const CheckOptions& options) {
  constexpr double kWideAmount = 0x1p-44;
  constexpr double kNoise = 4;
  if (options.run)
    return {.amount = 2 * relative_epsilon_of(sides.given), .noise = kNoise, .rounds_partial_sums = true};
  if (!sides.is_wide) return {.amount = 0, .noise = kNoise, .rounds_partial_sums = true};
  if (rounds(relative)) return {.amount = relative / 4};
  return {.amount = kWideAmount, .noise = 1, .trusts_zero_bits = true};
}

void add_ranges(std::vector<Tolerance>& tolerances, const Sides& sides, const Inputs& inputs,
                const CheckOptions& options, int rounds_of_runs) {
  if (tolerances.empty()) return;
  RoundingModel model = model_of(sides, tolerances.front().relative, options);
  const auto wide = options.run ? with_wide_floats(sides.given) : std::nullopt;
  if (options.run && !wide) model.amount = 0;  // the program rounds in its own types
  const auto ranges = rounding_ranges(wide ? *wide : sides.global, wide ? widened(inputs.given) : inputs.arguments,
                                      inputs.expected.front(), model, rounds_of_runs, options.trip_limit);
  for (int leaf = 0; leaf < isize(tolerances); ++leaf) at(tolerances, leaf).range = at(ranges, leaf);
}

// The results of the partitioned program and the expected results.
struct Outcome {
  std::vector<Literal> expected;  // one for all devices, or one per device
  std::vector<Type> types;        // by leaf: the types of the module
  Shardings shardings;            // by leaf
  std::vector<Literal> by_device;
};

void compare_all(const Outcome& outcome, const std::vector<Tolerance>& tolerances, CheckReport& report) {
  for (int leaf = 0; leaf < isize(outcome.types); ++leaf) {
    if (!at(outcome.types, leaf).is_array()) continue;
    std::vector<Literal> expected;
    for (const auto& result : outcome.expected) expected.push_back(at(result.leaves(), leaf));
    std::vector<Literal> pieces;
    for (const auto& result : outcome.by_device) pieces.push_back(at(result.leaves(), leaf));
    compare_leaf(expected, at(outcome.shardings, leaf), pieces, {leaf, at(outcome.types, leaf)}, at(tolerances, leaf),
                 report);
  }
}

// Of changed runs, if the first round almost explains the results: if no element is farther from the values that were
// seen than this many widths of their range.
constexpr int kMostRounds = 6;
constexpr double kReach = 64;

// Both programs must have all their constants.
CheckReport compare_programs(const Program& program, const Partitioned& parts, const CheckOptions& options) {
  CheckReport report;
  const auto& global = parts.global.entry_computation();
  const Program local = options.rewrite ? options.rewrite(parts.program) : parts.program;
  const Sides sides = sides_of(program, local, options);
  const Inputs inputs = draw_inputs(sides, program, global, options, report);
  const auto shards = shards_of_arguments(inputs.arguments, global, program.num_partitions, inputs.unit, options.seed);
  const Outcome outcome{
      inputs.expected, program.entry_computation().root_type().leaves(), *global[global.root].sharding,
      options.run ? options.run(local, shards) : run_poisoned(sides.partitioned, shards, options, report)};
  auto tolerances = tolerances_of(sides, inputs, options);
  const double rounded = rounded_by_collectives(parts.program, sides.is_wide, options);
  for (Tolerance& tolerance : tolerances) tolerance.relative += rounded;
  const CheckReport before = report;
  compare_all(outcome, tolerances, report);
  for (const int rounds_of_runs : {1, kMostRounds}) {
    if (report.failures.empty() || !options.accept_ill_conditioned || inputs.expected.size() != 1) break;
    if (rounds_of_runs > 1 && report.worst > kReach) break;
    report = before;
    add_ranges(tolerances, sides, inputs, options, rounds_of_runs);
    compare_all(outcome, tolerances, report);
  }
  report.passed = report.failures.empty();
  if (!report.passed) {
    std::set<std::string> stopped;
    EvaluateOptions how;
    how.trip_limit = options.trip_limit;
    how.stopped_loops = &stopped;
    report.unequal_results = unequal_results(sides.global, inputs.arguments, how);
  }
  return report;
}

}  // namespace

CheckReport check_partition(const Program& program, const CheckOptions& options) {
  return check_partitioned(program, partition(program, {.keep_shardings = !options.run && !options.rewrite}), options);
}

CheckReport check_partitioned(const Program& program, const Partitioned& parts, const CheckOptions& options) {
  if (!has_elided_constants(program)) return compare_programs(program, parts, options);
  Partitioned drawn = parts;
  drawn.program = with_drawn_constants(parts.program, options.seed);
  drawn.global = with_drawn_constants(parts.global, options.seed);
  CheckReport report = compare_programs(with_drawn_constants(program, options.seed), drawn, options);
  report.drawn_constants = elided_constants(program);
  return report;
}

}  // namespace tessera
