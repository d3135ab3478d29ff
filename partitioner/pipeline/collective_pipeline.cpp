// SPDX-License-Identifier: Apache-2.0
#include "pipeline/collective_pipeline.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/partitioner/pipeline/partition.h"
#include "tessera/passes/passes.h"

namespace tessera {
namespace {

// Rejects the result of a pass if it increases the work or the peak memory of a device. Counting requires a schedule,
// so only programs of moderate size are compared.
Program unless_more_expensive(const Program& before, Program after, const CollectivePassOptions& options,
                              bool compare_flops = true) {
  constexpr std::int64_t kLargestCompared = 20'000;
  if (!options.save_memory || before.instruction_count() > kLargestCompared || after.hash() == before.hash())
    return after;
  const ProgramStats was = program_stats(before);
  const ProgramStats is = program_stats(after);
  const bool more_expensive = is.total_collective_bytes > was.total_collective_bytes ||
                              (compare_flops && is.flops_per_device > was.flops_per_device) ||
                              is.peak_bytes_per_device > was.peak_bytes_per_device;
  return more_expensive ? before : after;
}

}  // namespace

void check_compressed_axes(const CollectivePassOptions& options) {
  for (const std::string& axis : options.int8_axes)
    require(std::find(options.bf16_axes.begin(), options.bf16_axes.end(), axis) == options.bf16_axes.end(),
            "axis \"{}\" is listed for compression to bf16 and to int8; choose one", axis);
}

void add_collective_passes(Pipeline& pipeline, const CollectivePassOptions& options, const MachineModel& machine) {
  const auto add = [&](const std::string& name, auto pass) {
    pipeline.add(name,
                 [&options, pass](const Program& p) { return unless_more_expensive(p, pass(p, options), options); });
  };
  add("reduce-gathered", [](const Program& p, const CollectivePassOptions&) { return reduce_gathered(p); });
  pipeline.add("simplify-collectives", simplify_collectives);
  add("reassociate-reductions", reassociate_reductions);
  add("hoist-collectives", hoist_collectives);
  add("share-gathers", share_gathers);
  // The modelled time already includes the additions of parts.
  pipeline.add("collective-matmul", [&options, &machine](const Program& p) {
    return unless_more_expensive(p, collective_matmul(p, machine), options, /*compare_flops=*/false);
  });
  check_compressed_axes(options);
  if (!options.int8_axes.empty())
    pipeline.add("compress-collectives-int8", [&options](const Program& p) {
      return compress_collectives(p, options.int8_axes, Compression::kInt8);
    });
  if (!options.bf16_axes.empty())
    pipeline.add("compress-collectives",
                 [&options](const Program& p) { return compress_collectives(p, options.bf16_axes); });
  add("combine-collectives", combine_collectives);
  if (options.save_memory && !options.make_asynchronous) pipeline.add("order-for-memory", order_for_memory);
  if (options.make_asynchronous) pipeline.add("make-asynchronous", make_asynchronous);
}

Program optimize_collectives(const Program& program, const CollectivePassOptions& options,
                             const std::vector<std::string>& skip,
                             const std::function<void(const std::string& pass, const Program&)>& dump,
                             const MachineModel& machine) {
  Pipeline pipeline("optimize-collectives", {.skip = skip, .dump = dump});
  pipeline.add("make-synchronous", make_synchronous).add("merge-duplicates", merge_duplicates);
  add_collective_passes(pipeline, options, machine);
  return pipeline.run(program);
}

}  // namespace tessera
