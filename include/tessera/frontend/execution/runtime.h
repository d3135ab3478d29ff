// SPDX-License-Identifier: Apache-2.0
// The first object of a program. It joins the job (MPI, or one rank without MPI), reads the environment, and sets the
// context of this rank.
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

/// The connection of a program to its job, for its lifetime.
class Runtime {
 public:
  /// Without mpirun, the job has one rank. Within launch(), joins the rank that launch() created.
  Runtime(int argc, char** argv);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  [[nodiscard]] int rank() const;
  [[nodiscard]] int rank_count() const;
  [[nodiscard]] bool is_master() const { return rank() == 0; }

 private:
  std::unique_ptr<Communicator> communicator_;  // null within launch()
};

/// Runs `body` on each rank of the job: the ranks that mpirun started, or one rank. `--virtual_ranks N` (removed from
/// argv) or CPU_NUM_DEVICES=N makes N ranks as threads of this process. So does the key `virtual_ranks` of a file with
/// flags (`program FILE.json`), unless the flag is given or mpirun started several processes. An exception is printed
/// with its rank and ends all ranks. Returns the result of `body`; 2 after a UsageError, such as those of
/// ArgumentParser, or if the number of virtual ranks is wrong; 1 after another exception, or if output could not be
/// written.
int launch(int argc, char** argv, const std::function<int(int, char**)>& body);

/// The ranks and hosts of this rank's job.
struct JobInfo {
  int ranks = 1;
  int nodes = 1;
  bool is_virtual = false;          // ranks are threads
  std::vector<std::string> hosts;   // one per rank
  std::string oversubscription;     // a warning if there are too few cores, else ""
  std::vector<int> node_of_rank{};  // empty if the ranks are threads
  bool shares_memory = true;        // ranks of a node exchange data in shared memory; false: through MPI
};
/// Returns the ranks and hosts of the job of this rank.
JobInfo job_info();

/// Makes `world` the group of ranks on which this rank's programs run. For code that creates ranks itself
/// (run_virtual_ranks).
void join_world(std::shared_ptr<ProcessGroup> world);
/// The same for a group that the caller keeps alive.
void join_world(ProcessGroup& world);
/// The group of ranks on which this rank's programs run.
std::shared_ptr<ProcessGroup> joined_world();

/// The number of devices for which programs are partitioned: the number of ranks, or the argument of
/// plan_for_devices.
std::int64_t device_count();
/// Disables execution on this rank: variables get no storage, and programs are planned for `devices` devices.
void plan_for_devices(std::int64_t devices);
/// True after plan_for_devices().
[[nodiscard]] bool is_planning();

/// Sets the mesh that programs without annotations, FSDP and loaders use. Error unless its size is device_count().
void set_default_mesh(const Mesh& mesh);
/// The mesh that was set, or that of the first mark_sharding(), or else the axis `data` over all devices.
Mesh default_mesh();

/// The program that mark_step() would run now, partitioned but not run.
struct StepPlan {
  Program global;           // as traced, with the shardings of inputs and results
  Partitioned partitioned;  // its program is `global` if there is one device
};
/// Partitions the traced program as mark_step() would, without running it. Error if nothing was traced since the last
/// mark_step().
StepPlan plan_step();
/// Continues as if the traced program had run: its results have types and shardings but no values. Error unless
/// plan_for_devices() was called.
void skip_step();

/// A program that this rank has compiled.
struct CompiledProgram {
  std::string reason;  // "mark_step at train.cpp:41"
  Program program;     // per device; execution_stats() counts it
  std::vector<CollectiveNote> notes;
  ExecutableMemory memory;
  Program global;                        // as traced: before partitioning
  std::weak_ptr<Executable> executable;  // expired if the rank does not keep it anymore
  std::int64_t number = 0;               // of compilations of this rank before it
};
/// The programs that this rank has compiled and keeps (XLA_COMPILATION_CACHE_SIZE), the oldest first.
const std::vector<CompiledProgram>& compiled_programs();

/// A file that every rank must read.
struct RequiredFile {
  std::string path;  // "": no file
  std::string flag;  // errors begin with the name of this flag
  std::string form;  // describes the file; errors about a missing file end with this text
};
/// Checks that every rank can read every file and that the contents are equal on all ranks. Collective. The lowest rank
/// that fails throws an error with the flag, the rank, the host, the path and the ranks that can read the file. The
/// other ranks stop without another message.
void check_files_on_all_ranks(const std::vector<RequiredFile>& files);

/// Returns the text of every rank of `world`, by rank. Collective.
std::vector<std::string> gather_texts(ProcessGroup& world, const std::string& mine);

/// Checks that all ranks pass the same named values, such as the flags of their command lines. Collective. The error,
/// on every rank, begins with `problem` and names each value that differs, with the values and their ranks.
void check_same_on_all_ranks(
    const std::vector<std::pair<std::string, std::string>>& values,
    std::string_view problem = "ranks were started with different arguments; give every rank the same");

/// Counters of the lazy front end on this rank.
struct LazyCounters {
  std::int64_t recorded_ops = 0;
  std::int64_t mark_steps = 0;
  std::int64_t executions = 0;    // programs run
  std::int64_t compilations = 0;  // programs partitioned and compiled
  std::int64_t cached = 0;        // programs that were compiled before
  std::int64_t forced_reads = 0;  // executions that started because a value was read
};
/// Returns the counters of this rank.
LazyCounters lazy_counters();

}  // namespace tessera
