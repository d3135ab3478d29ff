// SPDX-License-Identifier: Apache-2.0
// A compiled per-device program, ready to run on this rank.
//
//   auto executable = compile(program, world);                       // cached by content
//   std::vector<DeviceArray> results = executable->run(arguments);   // every rank of `world` calls it
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/collectives/process_group.h"
#include "tessera/ir/program.h"
#include "tessera/runtime/executable/buffer.h"
#include "tessera/schedule/arena_peak.h"

namespace tessera {

struct ExecutableOptions {
  /// The name of the executable in messages and reports; "": the program's name.
  std::string name;
  bool fuse = true;
  /// Return the executable of an equal program that this rank compiled before.
  bool use_cache = true;
  /// Run every op by its reference evaluation, which is slow, in the schedule of the kernels. This checks lowering and
  /// the schedule. In contrast, the backend REFERENCE uses neither.
  bool reference = false;
  /// A loop that continues after this number of rounds is an Error. 0: loops have no limit.
  std::int64_t trip_limit = 0;
};

/// The memory of an executable in bytes, by use. It is known before the first run.
struct ExecutableMemory {
  std::int64_t arguments = 0;
  std::int64_t results = 0;  // all results
  std::int64_t aliased = 0;  // of the results, those in the memory of arguments
  std::int64_t arena = 0;    // intermediate values and scratch memory of collectives
  std::int64_t constants = 0;
  std::int64_t file = 0;       // of values in the file of the rank; not memory
  std::int64_t workspace = 0;  // of the kernels; depends on the instruction set of the processor
  ArenaPeak arena_peak = {};   // the content of the arena at its peak

  /// Everything except the workspace of kernels: peak_bytes_per_device of `stats`.
  [[nodiscard]] std::int64_t peak_bytes() const { return arguments + results - aliased + arena + constants; }
  /// The memory of a rank while it runs the program.
  [[nodiscard]] std::int64_t held_bytes() const { return peak_bytes() + workspace; }
  /// One line for each use of memory, and one for each of the largest parts of the arena.
  [[nodiscard]] std::string str() const;
};

/// Statistics of one run on this rank.
struct RunStatistics {
  double flops = 0;         // of the lowered program (flops_of); loops count the rounds that were executed
  TrafficCounters traffic;  // of the collectives of the program
  std::int64_t nanoseconds = 0;
  std::int64_t communication_nanoseconds = 0;  // time in collectives, including waits: the exposed communication
  std::int64_t meeting_nanoseconds = 0;        // the part of it until every rank had begun the run
  std::int64_t overlapped_nanoseconds = 0;     // time in which the rank computed while collectives were in flight
};

/// The time of one step of an executable over the profiled runs. A loop or branch counts as one step with everything
/// that it runs.
struct StepProfile {
  std::string name;  // of its first instruction
  std::string kind;  // opcode, or `fused`
  std::int64_t runs = 0;
  std::int64_t nanoseconds = 0;  // over all runs
  double flops = 0;              // of one run
  std::int64_t bytes = 0;        // of one run: every buffer that it touches counts once
};

/// A compiled program.
class Executable {
 public:
  virtual ~Executable() = default;
  [[nodiscard]] virtual const std::string& name() const = 0;
  [[nodiscard]] virtual std::size_t hash() const = 0;
  /// The leaves of the parameters and of the root, in pre-order.
  [[nodiscard]] virtual const std::vector<Type>& argument_types() const = 0;
  [[nodiscard]] virtual const std::vector<Type>& result_types() const = 0;
  [[nodiscard]] virtual const ExecutableMemory& memory() const = 0;
  /// Index of the argument whose memory result leaf k takes, or -1.
  [[nodiscard]] virtual const std::vector<int>& donations() const = 0;

  /// Runs the program on this rank. All ranks of the world must run it together; this is checked. A donated argument
  /// whose only handle is in `arguments` gives its memory to a result. If another handle exists, the argument is
  /// copied first.
  std::vector<DeviceArray> run(std::vector<DeviceArray> arguments) { return run_with(arguments); }
  /// The same for a caller that needs its arguments back if the run fails. If it fails before the first step, the
  /// arguments are unchanged. If it fails later, arguments whose memory may have been written are null. After success,
  /// `arguments` is empty.
  virtual std::vector<DeviceArray> run_with(std::vector<DeviceArray>& arguments) = 0;
  [[nodiscard]] virtual const RunStatistics& last_run() const = 0;

  /// If `on`, every run measures the time of each step with one call of the clock. Otherwise, discards the
  /// measurements.
  virtual void set_profiling(bool on) = 0;
  /// One entry for each step in the order of execution; empty unless profiling is on.
  [[nodiscard]] virtual std::vector<StepProfile> profile() const = 0;
};

/// Throws an error with the known backends unless PJRT_DEVICE names one of them.
void check_backend();

/// Compiles the per-device program for the ranks of `world`. Collective over `world` if the program contains
/// collectives. Errors: the number of partitions is not the number of ranks (1 is allowed for a program without
/// collectives); there is no code to run an op.
std::shared_ptr<Executable> compile(const Program& program, ProcessGroup& world, const ExecutableOptions& options = {});

/// The memory of a rank in a job of `ranks` ranks, which need not exist. `nodes` as in ProcessGroup::nodes(). It is
/// that of the kernels, whichever backend is selected.
ExecutableMemory planned_memory(const Program& program, int ranks, const std::vector<int>& nodes);

/// The bytes that programs may add to the memory of each rank of `world`. These are the bytes that remain below the
/// limits that are checked before the first run of a program (TESSERA_MEMORY_LIMIT, control groups, machines), divided
/// equally among the ranks of a process, control group or machine. Nullopt: there is no limit. Collective.
std::optional<std::int64_t> memory_left(ProcessGroup& world);
/// The same for a job of `ranks` processes, each with the limits of this one. `nodes` as in ProcessGroup::nodes():
/// ranks of a node share its memory.
std::optional<std::int64_t> memory_left(int ranks, const std::vector<int>& nodes);

/// A program that this rank will run after the ones that it runs now.
struct ExpectedProgram {
  std::string name;  // begins the error
  ExecutableMemory memory;
  std::int64_t inputs = 0;  // of memory.arguments, those that do not exist yet
};
/// From now on, the check before the first run of a program also checks that this one fits into memory beside the
/// values that exist then. Nullopt: no longer. All ranks expect the same program. No program may be running.
void expect_program(std::optional<ExpectedProgram> program);

/// Removes the executables of this rank from the cache.
void clear_compile_cache();

/// Compiles and runs a program once: takes one literal for each parameter and returns the literal of the root.
Literal run_program(const Program& program, ProcessGroup& world, const std::vector<Literal>& arguments,
                    const ExecutableOptions& options = {});

}  // namespace tessera
