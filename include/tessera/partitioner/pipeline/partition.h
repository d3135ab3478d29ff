// SPDX-License-Identifier: Apache-2.0
// The partitioner: from a global program with some shardings to the program that every device runs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ir/program.h"
#include "tessera/partitioner/collective_passes/collective_passes.h"
#include "tessera/partitioner/explain/remedy.h"
#include "tessera/sharding/machine.h"

namespace tessera {

struct ExecutionOptions;  // tessera/lowering/execution_plan.h

/// Limits on the communication of a program. If one is exceeded, partition() throws an Error that lists the
/// collectives and their remedies.
struct CollectiveLimits {
  /// Allows only collectives that an annotation requires: a `Sharding` mark, or a value or result with a sharding in
  /// the text. FSDP's marks are annotations: gathered parameters of a unit, and gradients in their storage sharding.
  /// Sums of scalars are always allowed, because a scalar has only one sharding.
  bool strict = false;
  /// The most bytes that one device may receive.
  std::optional<std::int64_t> bytes{};
};

/// No choice of shardings was found that fits into the memory of a device.
class DoesNotFit : public Error {
 public:
  using Error::Error;
};

/// Automatic choice of shardings (docs/internals/decisions-of-sharding.md).
struct AutoSharding {
  std::optional<std::int64_t> memory{};  // bytes of a device for the values that are alive together; nullopt: no limit
};

struct PartitionOptions {
  /// Choose the shardings of parameters, results and values without annotation, instead of replicating parameters and
  /// results and propagating annotations. The choice has the least modelled time on `machine`.
  std::optional<AutoSharding> automatic{};
  /// Names of passes to skip (merge-duplicates, …).
  std::vector<std::string> skip_passes{};
  /// Called with the program after each pass.
  std::function<void(const std::string& pass, const Program&)> dump{};
  /// Whether TESSERA_DUMP_DIR has an effect.
  bool writes_dumps = true;
  /// Keep shardings and global dims on the local instructions. check uses them to poison padding.
  bool keep_shardings = false;
  /// The machine whose time and memory the choices minimize. On equal links without latency, as in the preset
  /// `uniform`, bytes come first.
  MachineModel machine{};
  CollectiveLimits limits{};
  /// Find a remedy for each collective by partitioning the program with it (in programs of at most a few thousand
  /// instructions), and the sums that data parallelism needs. False: a remedy is the annotation next to the
  /// collective, and is not tried.
  bool try_remedies = false;
  /// Options of the passes over collectives. skip_passes can skip each of them.
  CollectivePassOptions collectives{};
};

/// One inserted collective and its reason. A combined collective has one note for each part: part 0, 1, … of `parts`.
struct CollectiveNote {
  std::string collective;   // name of the instruction in the partitioned program
  std::string computation;  // its computation; "" is the entry
  std::string opcode;
  int part = 0;
  int parts = 1;
  std::string axes;          // data+fsdp
  std::string reason;        // "operand 0 of dot %h must be {-,-}"
  std::string consumer;      // "operand 0 of dot %h"; empty if no single op requires the collective
  std::string source;        // train.cpp:41
  std::string from;          // sharding before, and its origin
  std::string to;            // sharding after, and its origin
  Remedy remedy;             // the annotation that would remove it
  std::int64_t bytes = 0;    // received by one device, over all rounds
  double milliseconds = 0;   // modelled, over all rounds
  double rounds = 1;         // how often it runs: the product of the trip counts of its loops
  bool rounds_known = true;  // false: an unknown trip count counts as one
  bool asked = false;        // an annotation requires it, as in CollectiveLimits::strict
};

struct Partitioned {
  Program program;  // per device, marked
  Program global;   // after propagation: every value with its sharding (frozen)
  std::vector<CollectiveNote> notes;
};

/// Returns the notes of a partitioned program. The text of the program carries them too.
std::vector<CollectiveNote> collective_notes(const Program& program, const Topology& topology = {});

/// Returns `%h`, or `%body/h` outside of the entry.
std::string shown_collective(const CollectiveNote& note);
/// The number of collectives in the notes. Several parts may belong to one collective.
std::int64_t collective_count(const std::vector<CollectiveNote>& notes);
/// The text after an amount that a loop repeats: ` in 10 rounds`, or that the rounds are unknown and count as one, or
/// "".
std::string rounds_text(double rounds, bool known);

/// Partitions a program. Entry parameters and results have canonical tilings. Errors: a sharding does not fit its
/// type; the program is already partitioned; a limit is exceeded; shardings are to be chosen for a program with manual
/// regions; DoesNotFit.
Partitioned partition(const Program& program, const PartitionOptions& options = {});

/// `--annotate NAME=data+fsdp,-,model`: sets the sharding of a named value (entry parameters first, then
/// `computation/name`). Error if it has another sharding already.
Program annotate(const Program& program, const Mesh& mesh, const std::string& name, const std::string& spec);
/// Returns the value that annotate() finds by this name (also `NAME@p1`). Error if there is none.
const Instruction& annotatable(const Program& program, const std::string& name);
/// Removes the annotation of a value, so that it can be annotated again.
Program without_annotation(const Program& program, const std::string& name);
/// Returns `%x {-,data} in place of {data,-}` for each value whose sharding in `annotated` differs from that in
/// `program`, the program before annotation.
std::vector<std::string> replaced_annotations(const Program& program, const Program& annotated);

/// Returns the program with Shardy's marks and manual regions in the form of GSPMD, which XLA's partitioner reads
/// without Shardy's attributes.
Program in_gspmd_form(const Program& program);

struct ProgramStats {
  struct Kind {
    std::string opcode;
    std::int64_t count = 0;
    std::int64_t bytes = 0;  // over all rounds
    double runs = 0;         // how often these collectives run: equal to `count` if none is in a loop
    bool runs_known = true;  // false: an unknown trip count counts as one
  };
  std::int64_t num_partitions = 1;
  std::vector<Kind> collectives;  // sorted by opcode
  std::int64_t total_collective_bytes = 0;
  double flops_per_device = 0;
  std::int64_t peak_bytes_per_device = 0;
};
/// Counts any per-device program as it is executed: the lowered program and its schedule, so the numbers equal those
/// of the runtime except for the workspace of kernels. All numbers reported to users are counted in this way
/// (docs/reference/explain.md, statistics).
ProgramStats execution_stats(const Program& program, const ExecutionOptions& options);
/// The same with ExecutionOptions::for_plan.
ProgramStats execution_stats(const Program& program);
/// Counts the program as written, without lowering and without sharing within nodes: an estimate that needs only one
/// schedule. Passes of the partitioner compare candidates by it, and bench/peers/xla compares partitioners.
ProgramStats program_stats(const Program& program);

/// The modelled time of one run of a per-device program: its ops and collectives, one after the other.
double modelled_seconds(const Program& program, const MachineModel& machine);
/// That time, and the peak memory of program_stats().
Cost program_cost(const Program& program, const MachineModel& machine);

}  // namespace tessera
