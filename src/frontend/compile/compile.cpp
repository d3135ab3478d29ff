// SPDX-License-Identifier: Apache-2.0
// One rank partitions a program and sends the per-device program to the other ranks as text.
#include <exception>

#include "compile/program_cache.h"
#include "execution/debug_report.h"
#include "execution/execute.h"
#include "tessera/base/options.h"
#include "tessera/base/timeline.h"
#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {
namespace {

constexpr int kPartitioner = 0;

// The message of the partitioning rank: the text of the program, or an error message.
struct Parcel {
  std::string text;
  bool failed = false;
};

// Tells the ranks that wait for this rank what it is doing.
class WorkScope {
 public:
  WorkScope(ProcessGroup& world, std::string_view text) : world_(world) { world_.works_on(text); }
  ~WorkScope() { world_.works_on(""); }
  WorkScope(const WorkScope&) = delete;
  WorkScope& operator=(const WorkScope&) = delete;

 private:
  ProcessGroup& world_;
};

Parcel broadcast(ProcessGroup& world, Parcel mine) {
  std::int64_t header[2] = {static_cast<std::int64_t>(mine.text.size()), mine.failed ? 1 : 0};
  const CollectiveLabel label{0, fmt::format("the broadcast of a program that rank {} partitions", kPartitioner)};
  world.broadcast(std::as_writable_bytes(std::span(header)), kPartitioner, label);
  mine.text.resize(static_cast<std::size_t>(header[0]));
  mine.failed = header[1] != 0;
  world.broadcast(std::as_writable_bytes(std::span(mine.text)), kPartitioner, label);
  return mine;
}

}  // namespace

PartitionOptions partition_options() {
  PartitionOptions out;
  out.collectives.bf16_axes = options().list("TESSERA_BF16_AXES");
  out.collectives.int8_axes = options().list("TESSERA_INT8_AXES");
  return out;
}

namespace {

// Returns the per-device program as text: from the disk cache, or newly partitioned. Only the partitioning rank calls
// this.
std::string partitioned_text(const Program& program) {
  const std::size_t key = partition_key(program);
  if (std::optional<std::string> kept = load_partitioned(key)) return std::move(*kept);
  std::string text = print_program(partition(program, partition_options()).program);
  store_partitioned(key, text);
  return text;
}

Program partition_for_all(const Program& program, const RunReason& reason) {
  const TimedScope timed("PartitionTime", "compile");
  ProcessGroup& world = *session().world;
  const WorkScope work(world, fmt::format("partitions {} for {}", program.name, reason.text));
  Parcel parcel;
  std::exception_ptr error;
  if (world.rank() == kPartitioner) {
    try {
      parcel.text = partitioned_text(program);
    } catch (const std::exception& caught) {
      error = std::current_exception();
      parcel = {message_for_user(caught), true};
    }
  }
  parcel = broadcast(world, std::move(parcel));
  if (error) std::rethrow_exception(error);
  if (parcel.failed) throw Error(parcel.text);
  // The rank that wrote the text also parses it, so that all ranks run the same program.
  return parse_program(parcel.text, op_table(), {.file_name = "partitioned program"});
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
