// SPDX-License-Identifier: Apache-2.0
#include "tessera/partitioner/check/check.h"

#include <fmt/format.h>

#include "input.h"
#include "tessera/collectives/virtual_ranks.h"
#include "tessera/ir/op_def.h"
#include "tessera/lowering/lowering.h"
#include "tessera/ops/custom_call.h"
#include "tessera/ops/elided_constants.h"
#include "tessera/runtime/executable/executable.h"

namespace tessera::command {
namespace {

// Runs on a virtual cluster: one rank for each device, as threads of this process.
std::vector<Literal> run_on_virtual_ranks(const Program& program, const std::vector<std::vector<Literal>>& arguments,
                                          std::int64_t trip_limit) {
  std::vector<Literal> results(arguments.size());
  ExecutableOptions options;
  options.trip_limit = trip_limit;
  run_virtual_ranks(static_cast<int>(arguments.size()), [&](ProcessGroup& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    results[rank] = run_program(program, world, arguments[rank], options);
  });
  return results;
}

// Returns the program that a rank executes.
Program lowered(const Program& program) {
  return lower(program, static_cast<int>(program.num_partitions), LoweringOptions::from_environment());
}

CheckOptions check_options(const Arguments& arguments) {
  CheckOptions options;
  options.seed = static_cast<std::uint64_t>(arguments.number_or("seed", 0));
  options.trip_limit = arguments.number_or("trip-limit", options.trip_limit);
  const std::string engine = arguments.value_or("engine", "reference");
  if (engine == "runtime")
    options.run = [limit = options.trip_limit](const Program& program, const auto& inputs) {
      return run_on_virtual_ranks(program, inputs, limit);
    };
  if (engine == "lowered") options.rewrite = lowered;
  return options;
}

int run(const Arguments& arguments) {
  CheckOptions options = check_options(arguments);
  PartitionOptions how = how_to_partition(arguments);  // the same program as `tessera partition` prints
  check_skipped_passes(arguments, how);
  const Program program = read_program(arguments);
  require(!program.partitioned,
          "{} is a per-device program; give the global program that it comes from, with the same --mesh and --annotate "
          "(check partitions it itself)",
          program.name);
  options.carries_bf16 = !how.collectives.bf16_axes.empty();
  options.carries_int8 = !how.collectives.int8_axes.empty();
  how.keep_shardings = !options.run && !options.rewrite;
  const Partitioned parts = partition(program, how);
  const CheckReport report = check_partitioned(program, parts, options);
  const auto unknown = unknown_custom_calls(program);
  std::string text = fmt::format("{}: {} values compared, the largest difference is {:.3g} of its bound\n",
                                 report.passed ? "passed" : "FAILED", report.values_compared, report.worst);
  if (parts.program.num_partitions == 1) {
    text +=
        "note: the program is for one device; --mesh and --annotate, or shardings in the text, specify how to "
        "partition it\n";
  } else {
    const ProgramStats stats = program_stats(parts.program);  // of the checked program, as written
    std::int64_t collectives = 0;
    for (const auto& kind : stats.collectives) collectives += kind.count;
    text += fmt::format("on {} devices with {} collective{}, {} bytes received per device\n", stats.num_partitions,
                        collectives, collectives == 1 ? "" : "s", stats.total_collective_bytes);
    text += nothing_sharded_note(program);
  }
  if (at(computations_with_effects(program), program.entry))
    text += "note: results were compared, but not the data that ops with side effects send, such as outfeed\n";
  if (report.input_draws > 1)
    text += fmt::format("inputs were drawn {} times until most results were finite\n", report.input_draws);
  for (const auto& loop : report.stopped_loops)
    text += fmt::format("stopped after {} rounds (the trip limit) and compared there: {}\n", options.trip_limit, loop);
  if (const auto& loose = report.loosely_compared; !loose.empty())
    text +=
        fmt::format("the bounds are larger than the values, because intermediate values are larger or narrower: {}{}\n",
                    loose.front(), loose.size() > 1 ? fmt::format(", and {} more", loose.size() - 1) : "");
  if (const auto& drawn = report.drawn_constants; !drawn.empty())
    text += fmt::format("values were drawn for constants whose elements the text leaves out, {{...}}: {}\n",
                        elided_constants_text(program));
  if (const auto& ill = report.ill_conditioned; !ill.empty()) {
    text +=
        "ill-conditioned: other roundings change these elements of the results of the unpartitioned program by as "
        "much\n";
    for (const auto& element : ill) text += fmt::format("  {}\n", element);
  }
  if (!unknown.empty())
    text += fmt::format("hashes of the operands replace the results of unknown custom-calls: {}\n",
                        fmt::join(unknown, ", "));
  for (const auto& failure : report.failures) text += fmt::format("  {}\n", failure);
  if (!report.unequal_results.empty())
    text += fmt::format(
        "the module itself is wrong: without partitioning, {}. If the sharding with which a value leaves a manual "
        "region does not name a manual axis, the value must be equal along it: reduce it (all-reduce) or name the "
        "axis.\n",
        report.unequal_results);
  const auto path = arguments.value("json");
  if (path != "-") write_text("-", text);
  if (path) {
    JsonObject json;
    json.set("passed", report.passed);
    json.set("values_compared", report.values_compared);
    json.set("unequal_results", report.unequal_results);
    json.set("worst", report.worst);
    json.set("input_draws", report.input_draws);
    json.set("trip_limit", options.trip_limit);
    json.set("stopped_loops", report.stopped_loops);
    json.set("unknown_custom_calls", unknown);
    json.set("drawn_constants", report.drawn_constants);
    json.set("loosely_compared", report.loosely_compared);
    json.set("ill_conditioned", report.ill_conditioned);
    json.set("failures", report.failures);
    write_text(*path, json.str());
  }
  return report.passed ? kGood : kCheckFailed;
}

std::vector<Option> options() {
  auto out = sharding_options();
  for (const Option& option : how_to_partition_options()) out.push_back(option);
  out.push_back({"engine", "reference|lowered|runtime",
                 "reference: evaluate the partitioned program on all devices in lockstep, with NaN in the padding "
                 "(default); lowered: the same after lowering; runtime: run it with the fast kernels on virtual ranks; "
                 "the results are compared with the reference evaluation of the unpartitioned program",
                 one_of({"reference", "lowered", "runtime"})});
  out.push_back({"seed", "N", "the seed of the inputs; default: 0", integer_in_range(0)});
  out.push_back({"trip-limit", "N",
                 "stop each loop after N rounds, and list the loops that were stopped; default: 1000",
                 integer_in_range(1)});
  out.push_back({"json", "FILE", "write the report as JSON; - is standard output, instead of the text", {}, true});
  return out;
}

}  // namespace

const Verb kCheck = {
    "check", "compares the partitioned program with the unpartitioned one",
    "Both programs run on random inputs, which include indices out of range. Integers must be equal. "
    "The engine reference\n"
    "computes floats in double precision; they may differ by 2^-30 of the largest term. The engine "
    "runtime computes in the\n"
    "types of the module; floats may differ by a bound derived from these types. The options of "
    "`tessera partition` have the\n"
    "same effect here. Each collective that compresses (--bf16-axes, --int8-axes) adds 2^-8 or 2^-7 "
    "of the magnitudes to the\n"
    "bound; the engines reference and lowered do not round to bf16. The exit code is 3 if the results differ.",
    options(), run};

}  // namespace tessera::command
