// SPDX-License-Identifier: Apache-2.0
// One rank partitions a program and sends the per-device program to the other ranks as text.
#include <utility>

#include "compile/program_cache.h"
#include "compile/ship_text.h"
#include "execution/debug_report.h"
#include "execution/execute.h"
#include "tessera/base/options.h"
#include "tessera/base/timeline.h"
#include "tessera/frontend/sharding/use_spmd.h"
#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {
PartitionOptions partition_options(RunReason::Kind kind) {
  PartitionOptions out;
  out.collectives.bf16_axes = options().list("TESSERA_BF16_AXES");
  out.collectives.int8_axes = options().list("TESSERA_INT8_AXES");
  out.compares_outcomes = options().flag("TESSERA_PARTITION_SEARCH");
  if (!is_auto_spmd() || kind != RunReason::Kind::kMarkStep) return out;
  out.machine = MachineModel::load(options().text("TESSERA_MACHINE"));
  out.automatic = {out.machine.memory_bytes()};
  return out;
}

namespace {

// Returns the per-device program as text: from the choice of shardings, from the disk cache, or newly partitioned. Only
// the partitioning rank calls this.
std::string partitioned_text(const Program& program, RunReason::Kind kind) {
  const std::size_t key = partition_key(program);
  if (std::optional<std::string> kept = load_partitioned(key)) return std::move(*kept);
  auto& ahead = session().partitioned_ahead;
  const bool is_ahead = ahead && ahead->first == key;
  std::string text = is_ahead ? std::exchange(ahead, std::nullopt)->second
                              : print_program(partition(program, partition_options(kind)).program);
  store_partitioned(key, text);
  return text;
}

Program partition_for_all(const Program& program, const RunReason& reason) {
  const TimedScope timed("PartitionTime", "compile");
  const std::string text =
      text_from_one_rank("a program", fmt::format("partitions {} for {}", program.name, reason.text),
                         [&] { return partitioned_text(program, reason.kind); });
  // The rank that wrote the text also parses it, so that all ranks run the same program.
  return parse_program(text, op_table(), {.file_name = "partitioned program"});
}

}  // namespace

Session::Compiled compile_once(const Program& program, const RunReason& reason) {
  const TimelineSpan span([&] {
    return EventLabel{
        .category = "compile",
        .name = "compile",
        .arguments = {
            {"program", program.name}, {"hash", fmt::format("{:016x}", program.hash())}, {"for", reason.text}}};
  });
  Session& state = session();
  ++state.counters.compilations;
  CompiledProgram made{reason.text, program, {}, {}, program, {}};
  made.number = state.counters.compilations - 1;
  if (program.num_partitions > 1) {
    made.program = partition_for_all(program, reason);
    made.notes = collective_notes(made.program);
  }
  Session::Compiled out;
  const Computation& entry = program.entry_computation();
  out.results = *entry[entry.root].sharding;
  ExecutableOptions options;
  options.name = reason.text;
  options.use_cache = false;  // the cache of the session keeps it
  const WorkScope work(*state.world, fmt::format("compiles {} for {}", program.name, reason.text));
  out.executable = compile(made.program, *state.world, options);
  made.memory = out.executable->memory();
  made.executable = out.executable;
  report_compilation(program, made);
  state.programs.push_back(std::move(made));
  return out;
}

}  // namespace tessera
