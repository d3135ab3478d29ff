// SPDX-License-Identifier: Apache-2.0
// The partitioner: a global program with some shardings -> the program every device runs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/ir/program.h"
#include "tessera/partitioner/collective_passes/collective_passes.h"
#include "tessera/partitioner/explain/remedy.h"
#include "tessera/sharding/topology.h"

namespace tessera {

struct ExecutionOptions;  // tessera/lowering/execution_plan.h

/// What a program may communicate. partition() ends in an Error that lists what goes beyond, and what would remove it.
struct CollectiveLimits {
  /// Only collectives that bring about an annotation: a `Sharding` mark, a value or result with a sharding in the text. FSDP's marks are
  /// such: weights gathered for a unit, gradients as they are stored. And sums of scalars, of which nothing else can be said.
  bool strict = false;
  /// At most so many bytes received by one device.
  std::optional<std::int64_t> bytes{};
};

struct PartitionOptions {
  /// Names of passes to leave out (merge-duplicates, …).
  std::vector<std::string> skip_passes{};
  /// Called with the program after each pass.
  std::function<void(const std::string& pass, const Program&)> dump{};
  /// TESSERA_DUMP_DIR is heeded.
  bool writes_dumps = true;
  /// Leave shardings and global dims on the local instructions (check uses them to poison padding).
  bool keep_shardings = false;
  /// How fast the mesh's axes are; decides only where links differ.
  Topology topology{};
  CollectiveLimits limits{};
  /// How many reshards, those that bring most, are tried elsewhere in programs that are not large. 0: what propagation settles on, so
  /// that a training step lies alike at every size.
  int trials = 8;
  /// Work out what would spare each collective by partitioning with it (programs of a few thousand instructions at most), and which
  /// sums are those of data parallelism; else a remedy is what stands next to the collective, not tried.
  bool try_remedies = false;
  /// Of the passes over collectives; each can be left out by its name in skip_passes.
  CollectivePassOptions collectives{};
};

/// One inserted collective and why it is there. Where several travel together each has a note: part 0, 1, … of `parts`.
struct CollectiveNote {
  std::string collective;   // name of the instruction in the partitioned program
  std::string computation;  // where it stands; "" is the entry
  std::string opcode;
  int part = 0;
  int parts = 1;
  std::string axes;          // data+fsdp
  std::string reason;        // "operand 0 of dot %h must be whole over model: …"
  std::string source;        // train.cpp:41
  std::string from;          // sharding before, and who chose it
  std::string to;            // sharding after, and who chose it
  Remedy remedy;             // the annotation that would remove it
  std::int64_t bytes = 0;    // received by one device, times the rounds
  double milliseconds = 0;   // modelled, times the rounds
  double rounds = 1;         // how often it runs: the trip counts of the loops around it, multiplied
  bool rounds_known = true;  // false: some loop's is not known and taken for one
  bool asked = false;        // it brings about an annotation, as CollectiveLimits::strict says
};

struct Partitioned {
  Program program;  // per device, marked
  Program global;   // after propagation: every value with its sharding (frozen)
  std::vector<CollectiveNote> notes;
};

/// The notes of a partitioned program, which its text carries too.
std::vector<CollectiveNote> collective_notes(const Program& program, const Topology& topology = {});

/// `%h`, or `%body/h` outside of the entry, where others may have the same name.
std::string shown_collective(const CollectiveNote& note);
/// How many collectives notes are of: several parts may travel in one.
std::int64_t collective_count(const std::vector<CollectiveNote>& notes);
/// ` in 10 rounds`, or that they are not known and counted as one, or "": what stands behind an amount that a loop repeats.
std::string rounds_text(double rounds, bool known);

/// Entry parameters and results keep canonical tilings. Errors: a sharding that does not fit, a program already partitioned.
Partitioned partition(const Program& program, const PartitionOptions& options = {});

/// `--annotate NAME=data+fsdp,-,model`: sets the sharding of a named value (entry parameters first, `computation/name`). Error: it
/// has another one already.
Program annotate(const Program& program, const Mesh& mesh, const std::string& name, const std::string& spec);
/// The value that annotate() finds by this name (`NAME@p1` too). Error: there is none.
const Instruction& annotatable(const Program& program, const std::string& name);
/// Takes away what the program says of it, so that it can be said anew.
Program without_annotation(const Program& program, const std::string& name);
/// `%x {-,data} in place of {data,-}` for each value that lies otherwise in `annotated` than in `program`, which it was made of.
std::vector<std::string> replaced_annotations(const Program& program, const Program& annotated);

/// Shardy's marks and manual regions in the spelling of GSPMD, which XLA's partitioner reads without Shardy's attributes.
Program spelled_as_gspmd(const Program& program);

struct ProgramStats {
  struct Kind {
    std::string opcode;
    std::int64_t count = 0;
    std::int64_t bytes = 0;  // of all rounds
    double runs = 0;         // how often such a collective runs: `count` where none stands in a loop
    bool runs_known = true;  // false: some loop's rounds are not known and taken for one
  };
  std::int64_t num_partitions = 1;
  std::vector<Kind> collectives;  // sorted by opcode
  std::int64_t total_collective_bytes = 0;
  double flops_per_device = 0;
  std::int64_t peak_bytes_per_device = 0;
};
/// Of any partitioned module as it is executed: of the lowered program and its schedule, hence what the runtime executes and holds but for
/// its kernels' workspace. Everything that is reported to a user is counted so.
ProgramStats execution_stats(const Program& program, const ExecutionOptions& options);
/// The same with ExecutionOptions::for_plan.
ProgramStats execution_stats(const Program& program);
/// Of the program as written, without lowering and node sharing: an estimate that costs one schedule. Passes of the partitioner compare
/// candidates by it, and bench/peers/xla compares partitioners.
ProgramStats program_stats(const Program& program);

}  // namespace tessera
