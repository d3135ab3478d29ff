// SPDX-License-Identifier: Apache-2.0
// A compiled per-device program, ready to run on this rank.
//
//   auto executable = compile(program, world);                       // cached by content
//   std::vector<DeviceArray> results = executable->run(arguments);   // every rank of `world` calls it
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/collectives/process_group.h"
#include "tessera/ir/program.h"
#include "tessera/runtime/executable/buffer.h"

namespace tessera {

struct CompileOptions {
  /// Names the executable in messages and reports; "" = the program's name.
  std::string name;
  bool fuse = true;
  /// Give an equal program compiled before by this rank.
  bool use_cache = true;
  /// Run every op by its reference evaluation: slow, for checks.
  bool reference = false;
};

/// Bytes by use, known before the first run.
struct ExecutableMemory {
  std::int64_t arguments = 0;
  std::int64_t results = 0;  // all of them
  std::int64_t aliased = 0;  // of the results, those that are stored in arguments
  std::int64_t arena = 0;    // values in between, and scratch of collectives
  std::int64_t constants = 0;
  std::int64_t workspace = 0;  // of the kernels: depends on the processor's instruction set

  /// All but the kernels' workspace: what `stats` reports as peak_bytes_per_device.
  [[nodiscard]] std::int64_t peak_bytes() const { return arguments + results - aliased + arena + constants; }
  /// What a rank holds while it runs the program.
  [[nodiscard]] std::int64_t held_bytes() const { return peak_bytes() + workspace; }
};

/// What one run did on this rank.
struct RunStatistics {
  double flops = 0;         // of the lowered program, by the ops' own count; loops by the rounds they made
  TrafficCounters traffic;  // of the collectives of the program
  std::int64_t nanoseconds = 0;
  std::int64_t communication_nanoseconds = 0;  // of them in collectives, waits included: what is exposed
  std::int64_t meeting_nanoseconds = 0;        // of these, until every rank had begun the run
};

/// Time of one step of an executable over the profiled runs; a loop or branch counts as one step with all that it runs.
struct StepProfile {
  std::string name;  // of its first instruction
  std::string kind;  // opcode, or `fused`
  std::int64_t runs = 0;
  std::int64_t nanoseconds = 0;  // over all runs
  double flops = 0;              // of one run
  std::int64_t bytes = 0;        // of one run: every buffer it touches, once
};

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

  /// Runs on this rank; all ranks of the world run together (checked). Donated arguments whose only handle is in `arguments`
  /// give their memory to the results; a donated argument that someone else still holds is copied first.
  std::vector<DeviceArray> run(std::vector<DeviceArray> arguments) { return run_with(arguments); }
  /// The same for a caller who wants its arguments back where the run fails: they are as they were if it fails before the first step, and
  /// those whose memory may have been written are null if it fails later. Afterwards there are none.
  virtual std::vector<DeviceArray> run_with(std::vector<DeviceArray>& arguments) = 0;
  [[nodiscard]] virtual const RunStatistics& last_run() const = 0;

  /// From now on every run takes the time of its steps (a look at the clock each); off forgets what was taken.
  virtual void set_profiling(bool on) = 0;
  /// One entry per step in the order of execution; empty unless profiling.
  [[nodiscard]] virtual std::vector<StepProfile> profile() const = 0;
};

/// Compiles the program that each rank of `world` runs; collective over `world` when the program holds collectives. Errors: as
/// many partitions as ranks are needed (1 is fine for a program without collectives), an op no one can run.
std::shared_ptr<Executable> compile(const Program& program, ProcessGroup& world, const CompileOptions& options = {});

/// The memory of a rank of a job of `ranks` ranks that need not exist; `nodes` as of ProcessGroup::nodes().
ExecutableMemory planned_memory(const Program& program, int ranks, const std::vector<int>& nodes);

/// Forgets what this rank compiled.
void clear_compile_cache();

/// Compiles and runs once: a literal per parameter in, the root's literal out.
Literal run_program(const Program& program, ProcessGroup& world, const std::vector<Literal>& arguments,
                    const CompileOptions& options = {});

}  // namespace tessera
