// SPDX-License-Identifier: Apache-2.0
// Common code of the verbs: reads a program with its flags, and writes texts and JSON.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "command_line.h"
#include "tessera/base/json_object.h"
#include "tessera/ir/program.h"
#include "tessera/partitioner/pipeline/partition.h"

namespace tessera::command {

/// Checks a number of devices.
ValueCheck device_number();
/// Checks the text of a mesh.
ValueCheck mesh_text();
/// --num-partitions, --mesh, --annotate.
std::vector<Option> sharding_options();
/// Throws a UsageError unless the options agree with each other and with the number of ranks. 0: the options alone
/// specify the number of devices; negative: the number is not known yet. read_program() calls this, program_of() does
/// not.
void check_sharding_options(const Arguments& arguments, std::int64_t ranks);
/// Returns the number of ranks that --virtual-ranks, or CPU_NUM_DEVICES, makes as threads of this process, or 0. Throws a
/// UsageError if these contradict each other or mpirun.
int virtual_ranks(const Arguments& arguments);
/// --disable-passes, --memory-bound, --async: options of the passes over collectives.
std::vector<Option> pass_options();
void read_pass_options(const Arguments& arguments, std::vector<std::string>& skip, CollectivePassOptions& options);
/// Checks the value of --machine: a preset or the path of a file.
ValueCheck machine_name();
/// --machine, and the machine that it and --topology describe; nullopt if neither is given.
Option machine_option();
std::optional<MachineModel> machine_of(const Arguments& arguments);
/// The pass options, --auto, --memory, --fewer-collectives, --machine and --topology: all options that influence partitioning.
std::vector<Option> how_to_partition_options();
PartitionOptions how_to_partition(const Arguments& arguments);
/// Throws a UsageError if --disable-passes names a pass that `run` does not have or cannot skip. `run` is called with a
/// small program.
void check_skipped_passes(const Arguments& arguments, const std::function<void(const Program&)>& run);
/// The same for the passes of partition().
void check_skipped_passes(const Arguments& arguments, const PartitionOptions& options);
/// Returns the input as a program, with the sharding options applied.
Program read_program(const Arguments& arguments);
/// Describes the rank that reads a program.
struct Reader {
  std::int64_t partitions = 0;  // the number of ranks of the job; 0: any
  bool says_notes = true;       // false on all ranks but one
};
/// The same in two steps: read_input() returns the text of the file or of standard input, program_of() the program.
std::string read_input(const Arguments& arguments);
Program program_of(const std::string& text, const Arguments& arguments, const Reader& reader = {});
/// Returns a note if the program is for several devices but has no shardings, or "".
std::string nothing_sharded_note(const Program& program);
/// Returns "note: …\n" for axes of the mesh that no sharding uses, or "".
std::string unused_axes_note(const Program& program);
/// Returns "warning: …\n" if the text elides elements of constants, or "".
std::string elided_constants_warning(const Program& program);
/// Writes to a file, or to stdout for "-".
void write_text(const std::string& path, std::string_view text);
/// --as-written, for the verbs that report costs.
Option as_written_option();
/// Returns the costs of a program on a device: as executed, or as written with --as-written.
ProgramStats stats_of(const Program& program, const Arguments& arguments);
/// Returns the figures of `stats` and `partition` as JSON.
JsonObject stats_json(const ProgramStats& stats);
/// Returns the same figures as text.
std::string stats_text(const ProgramStats& stats);

}  // namespace tessera::command
