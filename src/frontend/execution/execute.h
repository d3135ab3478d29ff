// SPDX-License-Identifier: Apache-2.0
// From the trace to results: the program of some values is extracted, compared between ranks, partitioned, compiled, run.
#pragma once

#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/collectives/process_group.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/tracing/trace.h"
#include "tessera/partitioner/pipeline/partition.h"
#include "tessera/runtime/executable/executable.h"

namespace tessera {

/// A result that a program shall have.
struct ExtractedOutput {
  Value value;
  std::optional<Sharding> sharding;  // none: whole on every device
  int takes_over = -1;               // the input (of the trace) whose memory it may use
};
/// The program of some values of a trace.
struct ExtractedProgram {
  Program program;
  std::vector<std::shared_ptr<Node>> inputs;  // by parameter number
};
ExtractedProgram extract_program(Trace& trace, const std::vector<ExtractedOutput>& outputs, const std::string& name);

/// As the options of the process say.
PartitionOptions partition_options();

/// Why a program runs: in messages, and compared between ranks.
struct RunReason {
  enum class Kind : std::uint8_t { kMarkStep, kRead, kInitialize };
  Kind kind = Kind::kMarkStep;
  std::string text;  // "mark_step at train.cpp:41"
};
RunReason run_reason(RunReason::Kind kind, const std::source_location& where, const std::string& what = {});

/// What a rank needs to run programs; one per RankContext.
struct Session {
  std::shared_ptr<ProcessGroup> world;
  JobInfo job;
  std::optional<Mesh> mesh;          // set_default_mesh
  std::int64_t planned_devices = 0;  // plan_for_devices
  int local_ranks = 0;               // of this rank's node; 0: all of the world
  PerGroup<std::int64_t> sequence;   // of executions
  LazyCounters counters;
  struct Compiled {
    std::shared_ptr<Executable> executable;
    std::vector<Sharding> results;
  };
  PerGroup<std::unordered_map<std::size_t, Compiled>> cache;  // for each world
  std::vector<CompiledProgram> programs;
};
Session& session();

/// Partitions (on one rank, which ships the result to the others) and compiles a global program.
Session::Compiled compile_once(const Program& program, const RunReason& reason);

/// Runs an extracted program on all ranks; one array and its sharding per output. Its nodes give up memory that results take over.
struct RunResult {
  std::vector<DeviceArray> shards;
  std::vector<Sharding> shardings;
};
RunResult run_extracted(ExtractedProgram extracted, const RunReason& reason);
/// The arrays that a run is given. Nodes whose memory a result takes over give theirs up, and have them back where the run never began.
class RunArguments {
 public:
  explicit RunArguments(std::vector<std::shared_ptr<Node>> inputs) : inputs_(std::move(inputs)) {
    arrays_.reserve(inputs_.size());
  }
  /// Adds the array of the next input. A node may be several inputs; then no result takes over its memory.
  void add(bool gives_up);
  [[nodiscard]] std::vector<DeviceArray>& arrays() { return arrays_; }
  /// To the nodes, after a run that failed.
  void give_back();

 private:
  void find_array_of(Node& node);

  std::vector<std::shared_ptr<Node>> inputs_;
  std::vector<DeviceArray> arrays_;    // of the first inputs
  std::vector<std::size_t> given_up_;  // places of arrays
};
/// The two ends of it, for who has the executable: numbers the run and compares it between ranks; counts it and makes it known.
void begin_run(const ExtractedProgram& extracted, std::size_t hash, const RunReason& reason);
std::vector<DeviceArray> finish_run(const Program& program, Executable& executable, RunArguments arguments,
                                    const RunReason& reason);

/// Waits for the step that runs beside the trace, if one does: its nodes have their values then. Throws what went wrong in it.
void await_execution();

/// What a mark_step() would compute now: all live recorded nodes that have no value yet, in order of creation.
struct StepResults {
  std::vector<std::shared_ptr<Node>> nodes;
  std::vector<ExtractedOutput> outputs;
};
StepResults pending_results();
/// Gives the nodes what a run of their program gave.
void set_results(const StepResults& results, const RunResult& run);
/// run_extracted() and set_results(), or, where steps run beside the trace, begins the run and returns.
void run_step(ExtractedProgram extracted, const StepResults& results, const RunReason& reason);

/// Gives those of `nodes` that are deferred their initial values, in one program; collective unless none is.
void materialize(const std::vector<std::shared_ptr<Node>>& nodes);

/// This rank's part of a node, uploaded when it was not.
DeviceArray device_shard(Node& node);
/// Keeps the hash of a value that the host has given, before it is cut into shards. Nothing where the ranks do not compare such values.
void note_given(Node& node);
/// The sharding of a node; no mark means whole on every device of the default mesh.
Sharding storage_of(const Node& node);

/// Throws on every rank, naming where the ranks part, unless all are about to run the same program for the same reason on the same
/// whole values.
void check_same_program(ProcessGroup& world, const ExtractedProgram& extracted, std::size_t hash,
                        const RunReason& reason, std::int64_t sequence);

}  // namespace tessera
