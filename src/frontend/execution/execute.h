// SPDX-License-Identifier: Apache-2.0
// From the trace to results: extracts the program of some values, compares it between ranks, partitions, compiles and
// runs it.
#pragma once

#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/lru_cache.h"
#include "tessera/collectives/process_group.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/partitioner/pipeline/partition.h"
#include "tessera/runtime/executable/executable.h"

namespace tessera {

/// A result of an extracted program.
struct ExtractedOutput {
  Value value;
  std::optional<Sharding> sharding;  // none: fully replicated
  int takes_over = -1;               // the input (of the trace) whose memory it may use
  std::string name{};                // of the variable, for reports; "": none
  std::shared_ptr<Node> data{};      // instead of a value: data that the trace does not use, as another input
};
/// The program that computes some values of a trace.
struct ExtractedProgram {
  Program program;
  std::vector<std::shared_ptr<Node>> inputs;  // by parameter number
};
/// The ops of the trace that each backward pass added: its first op, and the one after its last.
using BackwardOps = std::vector<std::pair<Id, Id>>;
/// With `backward`, the instructions name their stages (stages.h), so that the program runs as several.
ExtractedProgram extract_program(Trace& trace, const std::vector<ExtractedOutput>& outputs, const std::string& name,
                                 const BackwardOps& backward = {});

/// The reason why a program runs, for messages and for the comparison between ranks.
struct RunReason {
  enum class Kind : std::uint8_t { kMarkStep, kRead, kInitialize, kEager };
  Kind kind = Kind::kMarkStep;
  std::string text;                              // "mark_step at train.cpp:41"
  std::string_view counter = "sync::mark_step";  // of the programs that ran for this kind of reason
};
/// The counter is that of the SyncScope, if there is one.
RunReason run_reason(RunReason::Kind kind, const std::source_location& where, const std::string& what = {});

/// Returns the options that the environment of the process specifies, for a program that runs for such a reason. In auto
/// mode, the shardings within steps are chosen automatically.
PartitionOptions partition_options(RunReason::Kind kind);

/// The state that a rank needs to run programs. There is one for each RankContext.
struct Session {
  std::shared_ptr<ProcessGroup> world;
  JobInfo job;
  std::optional<Mesh> mesh;          // set_default_mesh
  std::int64_t planned_devices = 0;  // plan_for_devices
  int local_ranks = 0;               // on this rank's node; 0: all of the world
  PerGroup<std::int64_t> sequence;   // of executions
  LazyCounters counters;
  struct Compiled {
    std::shared_ptr<Executable> executable;
    std::vector<Sharding> results;
  };
  PerGroup<LruCache<std::size_t, Compiled>> cache;  // for each world, by the hash of the global program
  std::vector<CompiledProgram> programs;            // without those that the cache gave up
  /// Auto mode: the shardings of inputs and results that were chosen, by the hash of the program without them.
  PerGroup<LruCache<std::size_t, std::vector<std::vector<std::optional<Sharding>>>>> choices;
  /// The program that was partitioned for the last choice: the partition_key() of the program with it, and the text.
  std::optional<std::pair<std::size_t, std::string>> partitioned_ahead;
};
Session& session();

/// Partitions (on one rank, which ships the result to the others) and compiles a global program.
Session::Compiled compile_once(const Program& program, const RunReason& reason);

/// Runs an extracted program on all ranks. Returns an array and its sharding for each output. The nodes of the program
/// give up memory that results take over.
struct RunResult {
  std::vector<DeviceArray> shards;
  std::vector<Sharding> shardings;
};
RunResult run_extracted(ExtractedProgram extracted, const RunReason& reason);
/// The arrays of a run's arguments. Nodes give up an array if a result takes over its memory, and get it back if the
/// run fails to start.
class RunArguments {
 public:
  explicit RunArguments(std::vector<std::shared_ptr<Node>> inputs) : inputs_(std::move(inputs)) {
    arrays_.reserve(inputs_.size());
  }
  /// Adds the array of the next input. A node may be several inputs; then no result takes over its memory.
  void add(bool gives_up);
  [[nodiscard]] std::vector<DeviceArray>& arrays() { return arrays_; }
  /// Returns the arrays to their nodes after a run that failed.
  void give_back();

 private:
  void find_array_of(Node& node);

  std::vector<std::shared_ptr<Node>> inputs_;
  std::vector<DeviceArray> arrays_;    // of the inputs added so far
  std::vector<std::size_t> given_up_;  // indices into arrays_
};
/// The start and the end of a run for callers that already have the executable. begin_run() numbers the run and
/// compares it between ranks. finish_run() counts it, reports it and executes it.
void begin_run(const ExtractedProgram& extracted, std::size_t hash, const RunReason& reason);
std::vector<DeviceArray> finish_run(const Program& program, Executable& executable, RunArguments arguments,
                                    const RunReason& reason);

/// Records in the timeline that the step was traced, from its first op until now.
void record_tracing(const RunReason& reason);

/// Waits until the step that runs during tracing, if any, has ended and its nodes have their values. Throws its error.
void await_execution();

/// The results that mark_step() would compute now: all live traced nodes without a value, in order of creation.
struct StepResults {
  std::vector<std::shared_ptr<Node>> nodes;
  std::vector<ExtractedOutput> outputs;
};
StepResults pending_results();
/// Assigns the results of a run to the nodes.
void set_results(const StepResults& results, const RunResult& run);
/// Performs run_extracted() and set_results(). If steps overlap with tracing, starts the run and returns.
void run_step(ExtractedProgram extracted, const StepResults& results, const RunReason& reason);

/// Computes the initial values of the deferred nodes among `nodes` in one program. Collective if there are any. `cause`
/// is what needs the values, for messages: "mark_step at train.cpp:41".
void materialize(const std::vector<std::shared_ptr<Node>>& nodes, std::string_view cause);

/// Returns this rank's shard of a node. Uploads it if necessary.
DeviceArray device_shard(Node& node);
/// Records the hash of a value from the host before the value is sharded. Does nothing if the ranks do not compare such
/// values.
void note_given(Node& node);
/// The same for a shard that this rank passes, if the sharding of the node places it on other ranks too.
void note_given_shard(Node& node, const Literal& shard);
/// Returns the sharding of a node. A node without a sharding is fully replicated on the default mesh.
Sharding storage_of(const Node& node);

/// Throws on every rank unless all ranks are about to run the same program for the same reason on equal complete
/// values. The error names the first difference between the ranks.
void check_same_program(ProcessGroup& world, const ExtractedProgram& extracted, std::size_t hash,
                        const RunReason& reason, std::int64_t sequence);

}  // namespace tessera
