// SPDX-License-Identifier: Apache-2.0
// The first line of a program: joins the job (MPI, or one rank without it), reads the environment, sets this rank's context.
//
//   int main(int argc, char** argv) {
//     return tessera::launch(argc, argv, [](int argc, char** argv) {
//       tessera::Runtime runtime(argc, argv);
//       …
//       return 0;
//     });
//   }
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/collectives/process_group.h"
#include "tessera/partitioner/pipeline/partition.h"
#include "tessera/runtime/executable/executable.h"
#include "tessera/sharding/mesh.h"

namespace tessera {

class Communicator;

class Runtime {
 public:
  /// Without mpirun: one rank. Within launch(): the rank that it made.
  Runtime(int argc, char** argv);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  [[nodiscard]] int rank() const;
  [[nodiscard]] int rank_count() const;
  [[nodiscard]] bool is_master() const { return rank() == 0; }

 private:
  std::unique_ptr<Communicator> communicator_;  // none within launch()
};

/// Runs `body` as each rank of the job: those that mpirun started, or one. `--virtual_ranks N` (taken out of argv) makes N ranks as
/// threads of this process. An exception is printed with its rank and ends all ranks; the result is then 1. It is 2
/// when --virtual_ranks is used wrongly, and 1 when output could not be written.
int launch(int argc, char** argv, const std::function<int(int, char**)>& body);

/// Where this rank's job runs.
struct JobInfo {
  int ranks = 1;
  int nodes = 1;
  bool is_virtual = false;         // ranks are threads
  std::vector<std::string> hosts;  // one per rank
  std::string crowding;            // a warning where cores are too few, else ""
};
JobInfo job_info();

/// Makes `world` the ranks that this rank's programs run on: for code that makes ranks itself (run_virtual_ranks).
void join_world(std::shared_ptr<ProcessGroup> world);
/// The same for a group that outlives the rank's use of it.
void join_world(ProcessGroup& world);
/// The ranks that this rank's programs run on.
std::shared_ptr<ProcessGroup> joined_world();

/// The number of devices a program is partitioned for: ranks, or what plan_for_devices said.
std::int64_t device_count();
/// From now on nothing executes on this rank: variables stay without storage, programs are planned for `devices` devices.
void plan_for_devices(std::int64_t devices);
[[nodiscard]] bool is_planning();

/// The mesh that unmarked programs, FSDP and loaders use. Error unless its size is device_count().
void set_default_mesh(const Mesh& mesh);
/// What was set, else `data` over all devices.
Mesh default_mesh();

/// The program that mark_step() would run now, partitioned but not executed.
struct StepPlan {
  Program global;           // as traced, with the shardings of inputs and results
  Partitioned partitioned;  // program == global when there is one device
};
StepPlan plan_step();
/// Goes on as if what is recorded had run: its results have types and shardings but no values. Only after plan_for_devices().
void skip_step();

/// A program that this rank compiled.
struct CompiledProgram {
  std::string reason;  // "mark_step at train.cpp:41"
  Program program;     // per device; execution_stats() counts it
  std::vector<CollectiveNote> notes;
  ExecutableMemory memory;
  Program global;                        // as traced: before partitioning
  std::weak_ptr<Executable> executable;  // while the rank keeps it
};
/// Those since the start, oldest first.
const std::vector<CompiledProgram>& compiled_programs();

/// Collective: ends in an error unless every rank can read every file ("" is none). The lowest rank that cannot throws, naming
/// rank, host, path and the ranks that can; the others stop with it. So it ends when a file's content differs between ranks.
void check_files_on_all_ranks(const std::vector<std::string>& paths);

/// Collective: ends in an error on every rank unless all ranks give the same values, such as the flags of their command lines, by name:
/// it names each that differs, with the values and the ranks that have them.
void check_same_on_all_ranks(const std::vector<std::pair<std::string, std::string>>& values);

/// What the lazy layer did on this rank so far.
struct LazyCounters {
  std::int64_t recorded_ops = 0;
  std::int64_t mark_steps = 0;
  std::int64_t executions = 0;    // programs run
  std::int64_t compilations = 0;  // programs partitioned and compiled
  std::int64_t cached = 0;        // programs found compiled
  std::int64_t forced_reads = 0;  // executions because a value was read
};
LazyCounters lazy_counters();

}  // namespace tessera
