// SPDX-License-Identifier: Apache-2.0
// What the verbs share: reading a program with its flags, writing texts and JSON.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "command_line.h"
#include "tessera/base/json_object.h"
#include "tessera/ir/program.h"
#include "tessera/partitioner/pipeline/partition.h"

namespace tessera::command {

/// Of the number of devices.
ValueCheck device_number();
/// --num-partitions, --mesh, --annotate.
std::vector<Option> sharding_options();
/// UsageError unless they agree with each other and with the number of ranks. 0: they alone say for how many devices; negative: the
/// number is not known yet.
/// read_program() calls it, program_of() does not.
void check_sharding_options(const Arguments& arguments, std::int64_t ranks);
/// --disable-passes, --memory-bound, --async: of passes over collectives.
std::vector<Option> pass_options();
void read_pass_options(const Arguments& arguments, std::vector<std::string>& skip, CollectivePassOptions& options);
/// Those, --fewer-collectives and --topology: all that decides how a program is partitioned.
std::vector<Option> how_to_partition_options();
PartitionOptions how_to_partition(const Arguments& arguments);
/// UsageError for a pass of --disable-passes that `run`, which a small program is given to, does not have or cannot leave out.
void check_skipped_passes(const Arguments& arguments, const std::function<void(const Program&)>& run);
/// The same of the passes of partition().
void check_skipped_passes(const Arguments& arguments, const PartitionOptions& options);
/// The input as a program, with the sharding options applied.
Program read_program(const Arguments& arguments);
/// Who reads a program.
struct Reader {
  std::int64_t partitions = 0;  // what the ranks of a job ask for; 0: nobody does
  bool says_notes = true;       // one rank does for all
};
/// The same in two steps: the text of the file or of standard input, and the program.
std::string read_input(const Arguments& arguments);
Program program_of(const std::string& text, const Arguments& arguments, const Reader& reader = {});
/// A line that says so when a program for several devices, as given, shards nothing; else nothing.
std::string nothing_sharded_note(const Program& program);
/// "note: …\n" for axes of the mesh that no sharding names, or "".
std::string unused_axes_note(const Program& program);
/// "warning: …\n" when the text leaves out elements of constants, or "".
std::string elided_constants_warning(const Program& program);
/// To a file, or to stdout for "-".
void write_text(const std::string& path, std::string_view text);
/// --as-written: of the verbs that count.
Option as_written_option();
/// What a program costs on a device: as executed, or as written with --as-written.
ProgramStats stats_of(const Program& program, const Arguments& arguments);
/// What `stats` and `partition` give to machines.
JsonObject stats_json(const ProgramStats& stats);
/// The same for people.
std::string stats_text(const ProgramStats& stats);

}  // namespace tessera::command
