// SPDX-License-Identifier: Apache-2.0
// The complete pipeline: its passes and their order.
#include "tessera/partitioner/pipeline/partition.h"

#include <algorithm>
#include <utility>

#include "collective_passes/compose_permutes.h"
#include "explain/explain.h"
#include "explain/remedies.h"
#include "localize/localize.h"
#include "normalize/duplicate_cheap_values.h"
#include "normalize/loop_state.h"
#include "normalize/manual.h"
#include "normalize/outfeed_shards.h"
#include "normalize/region_collectives.h"
#include "normalize/sharding_groups.h"
#include "pipeline/collective_pipeline.h"
#include "pipeline/origins.h"
#include "propagation/propagate.h"
#include "reshard_insertion/batch_reductions.h"
#include "reshard_insertion/insert_reshards.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"
#include "tessera/ops/control_flow.h"
#include "tessera/passes/batch_indices.h"
#include "tessera/passes/passes.h"
#include "tessera/passes/pipeline.h"
#include "tessera/passes/plain_forms.h"

namespace tessera {
namespace {

// Checks the input. Its manual regions must be in normalized form.
void check_input(const Program& program) {
  const auto used = partitioned_computations(program);
  for (ComputationId c = 0; c < isize(program.computations); ++c) {
    if (!at(used, c)) continue;
    for (const auto& instruction : program[c].instructions) {
      if (instruction.op->role != Role::kCollective && instruction.op->role != Role::kPartitionId) continue;
      require(is_manual(instruction),
              "the global program contains {} %{}: collectives and partition-id belong to per-device programs, and to "
              "manual regions of global ones; if XLA has partitioned this module already, dump it before .compile()",
              instruction.op->name, instruction.name);
      check_region_collective(instruction);
    }
  }
}

// Gives a program without meshes a single axis over all its devices.
Program with_mesh(Program program) {
  if (program.meshes.empty()) program.meshes.push_back(Mesh({{"devices", program.num_partitions}}));
  return program;
}

// The passes from the program with reshards to the program that each device runs.
void add_local_passes(Pipeline& pipeline, const PartitionOptions& options) {
  pipeline
      .add_required(
          "localize",
          [&](const Program& p) {
            const LocalizeOptions how{.keep_shardings = options.keep_shardings, .topology = options.machine.links()};
            return without_origins(options.collectives.save_memory ? localize_saving_memory(p, how) : localize(p, how));
          })
      .add("dummy-collectives", dummy_collectives)
      .add("simplify", simplify)
      .add("merge-duplicates", merge_duplicates)
      .add("compose-permutes", compose_permutes)
      .add("remove-dead-code", remove_dead_code);
  add_collective_passes(pipeline, options.collectives, options.machine);
}

void check_is_global(const Program& program) {
  require(!program.partitioned,
          "{} is already partitioned (it carries the partitioner's mark); give the global program instead",
          program.name);
  require(program.replica_count == 1,
          "{} has replica_count={}; only programs with one replica can be partitioned: count all devices in "
          "num_partitions, and add a mesh axis for the replicas",
          program.name, program.replica_count);
}

// Lets parameters and results have any sharding.
Program with_open_borders(Program program, const PartitionOptions& options) {
  if (!options.automatic) return program;
  program.propagate_to_parameters = {true};
  program.propagate_to_output = {true};
  return program;
}

struct PartitionedOnce {
  Partitioned out;
  std::shared_ptr<Alternatives> alternatives;
};

// Partitions without estimates of remedies and without limits.
PartitionedOnce partition_once(const Program& given, const PartitionOptions& options, double share = 1) {
  const auto memory_share = options.automatic ? std::optional(share) : std::nullopt;
  const Program program = with_open_borders(given, options);
  const Program input =
      without_replica_collectives(normalize_manual(with_outfeeds_of_shards(with_mesh(without_degenerate_collectives(
          with_sharding_groups(with_one_loop_state(make_synchronous(plain_forms(program)))))))));
  check_input(input);
  options.machine.links().check(input.meshes);
  Partitioned out;
  Propagated found;
  Pipeline pipeline("partition",
                    {.skip = options.skip_passes, .dump = options.dump, .writes_dumps = options.writes_dumps});
  pipeline.add_required("note-origins", with_origins)
      .add_required("inline-calls", inline_calls)
      .add("simplify", simplify)
      .add("merge-duplicates", merge_duplicates)
      .add("slice-first", slice_first)
      .add("batch-indices", batch_indices)
      .add("simplify-branches", simplify_branches)
      .add("simplify-loops", simplify_loops)
      .add("separate-callees", separate_callees)
      .add_required("duplicate-cheap-values", duplicate_cheap_values)
      .add_required("propagate",
                    [&](const Program& p) {
                      found = propagate_at_least_cost(p, options.machine, memory_share, options.compares_outcomes);
                      return found.program;
                    })
      .add_required("insert-reshards",
                    [&](const Program& p) {
                      return options.try_remedies ? insert_explained_reshards(p, options.machine, found)
                                                  : insert_chosen_reshards(p, options.machine, found);
                    })
      .add_required("record-global", [&](const Program& p) {
        out.global = options.try_remedies ? with_batch_sums_named(p) : p;
        return out.global;
      });
  add_local_passes(pipeline, options);
  out.program = pipeline.run(input);
  out.notes = collective_notes(out.program, options.machine.links());
  return {std::move(out), std::move(found.alternatives)};
}

// Adds remedies with their estimated effect. An estimate takes about a twentieth of the time of partitioning.
Partitioned with_remedies(PartitionedOnce parts, const Program& given, const PartitionOptions& options,
                          std::int64_t most_estimates) {
  Partitioned out = std::move(parts.out);
  if (parts.alternatives == nullptr) return out;
  out.program =
      with_estimated_remedies(out.program, {given, out.global, out.notes, *parts.alternatives}, most_estimates);
  out.notes = collective_notes(out.program, options.machine.links());
  return out;
}

// The notes with estimated remedies, for an error message.
std::vector<CollectiveNote> advice(const Program& program, const PartitionOptions& options) {
  PartitionOptions trying = options;
  trying.try_remedies = true;
  trying.dump = {};
  trying.writes_dumps = false;
  constexpr std::int64_t kMost = 64;
  return with_remedies(partition_once(program, trying), with_mesh(program), trying, kMost).notes;
}

// Chooses shardings with less and less memory until the program fits into that of a device.
PartitionedOnce partition_within_memory(const Program& program, const PartitionOptions& options, std::int64_t memory) {
  constexpr int kMostRounds = 6;
  double share = 1;
  std::int64_t least = INT64_MAX;
  for (int round = 0; round < kMostRounds; ++round) {
    PartitionedOnce out = partition_once(program, options, share);
    const std::int64_t peak = execution_stats(out.out.program).peak_bytes_per_device;
    if (peak <= memory) return out;
    least = std::min(least, peak);
    constexpr double kLeastStep = 0.95;
    share *= std::min(kLeastStep, static_cast<double>(memory) / static_cast<double>(peak));
  }
  throw DoesNotFit(fmt::format(
      "{}: no shardings over {} were found with which a device needs at most {}; the least memory found is {}",
      program.name, with_mesh(program).meshes.front().str(), format_bytes(static_cast<double>(memory)),
      format_bytes(static_cast<double>(least))));
}

}  // namespace

Partitioned partition(const Program& program, const PartitionOptions& options) {
  check_is_global(program);
  require(
      options.compares_outcomes || !options.automatic,
      "{}: automatic shardings result from a comparison of costs, which is switched off (TESSERA_PARTITION_SEARCH=0, "
      "--full_determinism)",
      program.name);
  const auto memory = options.automatic ? options.automatic->memory : std::nullopt;
  PartitionedOnce once = memory ? partition_within_memory(program, options, *memory) : partition_once(program, options);
  constexpr std::int64_t kEstimates = 3;  // which together take a sixth of the time of partitioning
  Partitioned out = options.try_remedies ? with_remedies(std::move(once), with_mesh(program), options, kEstimates)
                                         : std::move(once.out);
  if (!keeps_limits(out.notes, options.limits))
    fail_beyond_limits(options.try_remedies ? out.notes : advice(program, options), options.limits);
  return out;
}

}  // namespace tessera
