// SPDX-License-Identifier: Apache-2.0
// What the verbs share: reading a program with its flags, writing texts and JSON.
#pragma once

#include <string>
#include <string_view>

#include "command_line.h"
#include "tessera/base/json_object.h"
#include "tessera/ir/program.h"
#include "tessera/partitioner/partition.h"

namespace tessera::command {

/// --num-partitions, --mesh, --annotate.
std::vector<Option> sharding_options();
/// UsageError unless they are well formed; read_program() calls it.
void check_sharding_options(const Arguments& arguments);
/// --disable-passes, --memory-bound, --async: of passes over collectives.
std::vector<Option> pass_options();
void read_pass_options(const Arguments& arguments, std::vector<std::string>& skip, CollectivePassOptions& options);
/// The input as a program, with the sharding options applied. `partitions` (0 = none) is what the ranks of a job ask for.
Program read_program(const Arguments& arguments, std::int64_t partitions = 0);
/// A line that says so when a program for several devices, as given, shards nothing; else nothing.
std::string nothing_sharded_note(const Program& program);
/// "note: …\n" for axes of the mesh that no sharding names, or "".
std::string unused_axes_note(const Program& program);
/// --engine: reference or runtime.
std::string engine_of(const Arguments& arguments, std::string_view otherwise);
/// To a file, or to stdout for "-".
void write_text(const std::string& path, std::string_view text);
/// What `stats` and `partition` give to machines.
JsonObject stats_json(const ProgramStats& stats);
/// The same for people.
std::string stats_text(const ProgramStats& stats);

}  // namespace tessera::command
