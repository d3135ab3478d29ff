// SPDX-License-Identifier: Apache-2.0
// The partitioner turns a global program, of which some values have shardings, into the program that every device runs.
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
  /// Allows only collectives that an annotation requires. Annotations are `Sharding` marks, and the shardings of values
  /// and results in the text. FSDP's marks are annotations, too: they require that the parameters of a unit are
  /// gathered and that gradients get their storage sharding. Sums of scalars are always allowed, because a scalar has
  /// only one sharding.
  bool strict = false;
  /// The most bytes that one device may receive.
  std::optional<std::int64_t> bytes{};
};

/// The error if no choice of shardings was found that fits into the memory of a device.
class DoesNotFit : public Error {
 public:
  using Error::Error;
};

/// Automatic choice of shardings (docs/internals/decisions-of-sharding.md).
struct AutoSharding {
  std::optional<std::int64_t> memory{};  // bytes of a device for the values that are alive together; nullopt: no limit
};

struct PartitionOptions {
  /// If set, chooses the shardings of parameters, results and values without annotation such that the modelled time on
  /// `machine` is least. Otherwise, annotations are propagated, and parameters and results without annotation are fully
  /// replicated.
  std::optional<AutoSharding> automatic{};
  /// False: annotations are propagated in the first order only, without a comparison of costs, so that small changes of
  /// sizes change no sharding. With `automatic`, it is an error.
  bool compares_outcomes = true;
  /// Names of passes to skip (merge-duplicates, …).
  std::vector<std::string> skip_passes{};
  /// Called with the program after each pass.
  std::function<void(const std::string& pass, const Program&)> dump{};
  /// True: TESSERA_DUMP_DIR has an effect.
  bool writes_dumps = true;
  /// Keep shardings and global dims on the local instructions. `tessera check` uses them to poison padding.
  bool keep_shardings = false;
  /// The choices minimize the modelled time and memory on this machine. If its links are equal and have no latency, as
  /// in the preset `uniform`, they first minimize bytes.
  MachineModel machine{};
  CollectiveLimits limits{};
  /// True: finds remedies for the collectives with the most bytes by estimating the program with them. For sums that
  /// data parallelism needs, the remedy states that they are necessary. False: the remedy is an annotation next to the
  /// collective, without an estimate. If it is true, notes also contain the second best strategy of an op.
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
  std::string consumer;      // "operand 0 of dot %h"; "" if no single op requires the collective
  std::string source;        // train.cpp:41
  std::string from;          // sharding before, and its origin
  std::string to;            // sharding after, and its origin
  std::string next;          // the second best strategy of the op, and its cost; "" without try_remedies or if none
  Remedy remedy;             // the change that would remove the collective
  std::int64_t bytes = 0;    // received by one device, over all rounds
  double milliseconds = 0;   // modelled, over all rounds
  double rounds = 1;         // how often it runs: the product of the trip counts of its loops
  bool rounds_known = true;  // false: an unknown trip count counts as one
  bool asked = false;        // an annotation requires it (CollectiveLimits::strict)
};

/// The result of partition().
struct Partitioned {
  Program program;  // the per-device program; `partitioned` is true
  Program global;   // the global program after reshard insertion: every value has a sharding
  std::vector<CollectiveNote> notes;
};

/// Returns the notes of a partitioned program. The frontend attributes of the program contain them.
std::vector<CollectiveNote> collective_notes(const Program& program, const Topology& topology = {});

/// Returns `%h`, or `%body/h` outside of the entry.
std::string shown_collective(const CollectiveNote& note);
/// The number of collectives in the notes. Several parts may belong to one collective.
std::int64_t collective_count(const std::vector<CollectiveNote>& notes);
/// Returns the text after an amount that a loop repeats: ` in 10 rounds`, or "" for one round. If the number of rounds
/// is unknown, the text states that it counts as one.
std::string rounds_text(double rounds, bool known);

/// Partitions a program. Entry parameters and results have canonical tilings. Errors: a sharding does not fit its type;
/// the program is already partitioned; a limit is exceeded; DoesNotFit.
Partitioned partition(const Program& program, const PartitionOptions& options = {});

/// `--annotate NAME=data+fsdp,-,model`: sets the sharding of a named value (entry parameters first, then
/// `computation/name`). Error if the value already has a different sharding.
Program annotate(const Program& program, const Mesh& mesh, const std::string& name, const std::string& spec);
/// Returns the value that annotate() finds by this name (also `NAME@p1`). Error if there is none.
const Instruction& annotatable(const Program& program, const std::string& name);
/// Removes the annotation of a value, so that it can be annotated again.
Program without_annotation(const Program& program, const std::string& name);
/// Compares `annotated` with `program`, the program before annotation. Returns `%x {-,data} in place of {data,-}` for
/// each value whose sharding differs.
std::vector<std::string> replaced_annotations(const Program& program, const Program& annotated);

/// Returns the program with Shardy's marks and manual regions in the form of GSPMD, which XLA's partitioner reads
/// without Shardy's attributes.
Program in_gspmd_form(const Program& program);

/// The collectives, FLOPs and memory of a per-device program.
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
/// Counts a per-device program as it is executed: after lowering, with its schedule. The numbers equal those of the
/// runtime, except for the workspace of kernels. All numbers that users see are counted in this way
/// (docs/reference/explain.md, statistics).
ProgramStats execution_stats(const Program& program, const ExecutionOptions& options);
/// The same with ExecutionOptions::for_plan.
ProgramStats execution_stats(const Program& program);
/// Counts the program as written, without lowering and without shared memory within nodes. This estimate needs only one
/// schedule. Passes of the partitioner use it to compare candidates, and bench/peers/xla uses it to compare
/// partitioners.
ProgramStats program_stats(const Program& program);

/// The modelled time of one run of a per-device program: the sum over its ops and collectives, without overlap.
double modelled_seconds(const Program& program, const MachineModel& machine);
/// The cost of a per-device program: modelled_seconds(), and the peak memory of program_stats().
Cost program_cost(const Program& program, const MachineModel& machine);

}  // namespace tessera
