// SPDX-License-Identifier: Apache-2.0
// The top level of the reader: header, computations, then all shardings.
#include <algorithm>
#include <boost/container/flat_map.hpp>
#include <boost/unordered/unordered_flat_map.hpp>

#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"
#include "tessera/ir/text.h"
#include "text/not_hlo_text.h"
#include "text/text_reader.h"
#include "verify_devices.h"

namespace tessera {

// Reads `{op_type="x" op_name="y" source_file="z" source_line=3 …}`.
void read_metadata(std::string_view text, const SourceTables& tables, Notes& notes) {
  TextCursor in(text);
  in.expect("{", "before the metadata");
  while (!in.take("}")) {
    const std::string key(in.identifier("a field of the metadata"));
    in.expect("=", "after the name of a field");
    if (key == "op_type") {
      notes.op_type = in.quoted("a text");
    } else if (key == "op_name") {
      notes.op_name = in.quoted("a text");
    } else if (key == "source_file") {
      notes.source_file = in.quoted("a text");
    } else if (key == "source_line") {
      const auto line = in.integer("a line number");
      if (line < 0 || line > 1'000'000'000) in.fail_expected("a line number");
      notes.source_line = static_cast<int>(line);
    } else if (key == "stack_frame_id") {
      const auto number = in.integer("a stack frame");
      const auto frame = tables.frames.find(number);
      if (frame != tables.frames.end() && notes.source_file.empty()) {
        notes.source_file = frame->second.file;
        notes.source_line = frame->second.line;
      }
      notes.metadata_rest.push_back({key, std::to_string(number)});
    } else {
      notes.metadata_rest.push_back({key, in.value("a value")});
    }
    in.take(",");
  }
}

std::string nearest_value(const IdsByName& names, std::string_view name) {
  constexpr std::size_t kMostCandidates = 20000;  // edit distances are slow, and an error message should not be
  if (names.size() > kMostCandidates) return {};
  std::vector<std::string> known;
  for (const auto& [other, id] : names) known.emplace_back(other);
  std::sort(known.begin(), known.end());
  const auto near = nearest_name(name, known);
  return near.empty() ? "; operands come before their users" : fmt::format("; did you mean \"{}\"?", near);
}

void take_frontend_attributes(std::string_view text, std::size_t position, const OpDef& op, Notes& notes,
                              PendingSharding& sharding, std::vector<TextAttribute>& own) {
  for (auto& [key, value] : read_frontend_attributes(text)) {
    const bool is_mark = op.role == Role::kShardingMark;
    if (key == kLayoutsKey) continue;  // the type contains it
    if (key == kShardingRuleKey && is_mark) {
      own.push_back({std::move(key), quote(value)});
    } else if (key == kNumBatchDimsKey && is_mark) {
      own.push_back({std::move(key), std::move(value)});
    } else if (key != kOwnShardingKey && key != kSdyShardingKey) {
      notes.frontend_attributes.emplace_back(std::move(key), std::move(value));
    } else if (key == kOwnShardingKey || sharding.sdy.empty()) {
      sharding.sdy = std::move(value);
      sharding.position = position;
    }
  }
}

namespace {

// Reads `1 "file.py"` …
boost::unordered_flat_map<std::int64_t, std::string> read_names_by_number(TextCursor& in) {
  boost::unordered_flat_map<std::int64_t, std::string> out;
  while (in.peek() >= '0' && in.peek() <= '9') {
    const auto number = in.integer("a number");
    out[number] = in.quoted("a name in quotes");
  }
  return out;
}

using Fields = boost::container::flat_map<std::string_view, std::int64_t>;

// Reads `1 {file_name_id=1 line=33 …}` …
boost::unordered_flat_map<std::int64_t, Fields> read_fields_by_number(TextCursor& in) {
  boost::unordered_flat_map<std::int64_t, Fields> out;
  while (in.peek() >= '0' && in.peek() <= '9') {
    Fields& fields = out[in.integer("a number")];
    in.expect("{", "before the fields");
    while (!in.take("}")) {
      const std::string_view name = in.identifier("the name of a field");
      in.expect("=", "after the name of a field");
      fields[name] = in.integer("a number");
    }
  }
  return out;
}

}  // namespace

// Reads FileNames, FunctionNames, FileLocations, StackFrames.
SourceTables read_source_tables(TextCursor& in) {
  SourceTables out;
  in.skip_blanks();
  const auto start = in.position();
  auto end = start;
  boost::unordered_flat_map<std::int64_t, std::string> files;
  boost::unordered_flat_map<std::int64_t, Fields> places;
  boost::unordered_flat_map<std::int64_t, Fields> frames;
  while (true) {
    if (in.take_word("FileNames"))
      files = read_names_by_number(in);
    else if (in.take_word("FunctionNames"))
      read_names_by_number(in);
    else if (in.take_word("FileLocations"))
      places = read_fields_by_number(in);
    else if (in.take_word("StackFrames"))
      frames = read_fields_by_number(in);
    else
      break;
    end = in.position();
  }
  out.text = trim(in.text().substr(start, end - start));
  for (auto& [id, frame] : frames) {
    Fields& place = places[frame["file_location_id"]];
    const auto line = place["line"];
    if (line > 0 && line <= 1'000'000'000) out.frames[id] = {files[place["file_name_id"]], static_cast<int>(line)};
  }
  return out;
}

namespace {

// Reads a text without the line `HloModule`: computations or a single instruction. Returns false if it is neither.
bool read_bare(ModuleState& state) {
  TextCursor& in = state.in;
  const auto start = in.position();
  bool is_computation = in.peek_identifier() == "ENTRY";
  bool is_instruction = !is_computation && !in.next_is("(") && type_is_next(in);
  if (!is_computation && !is_instruction) {
    in.take_word("ROOT");
    const bool percent = in.take("%");
    const auto word = in.peek_identifier();
    in.seek(in.position() + word.size());
    is_instruction = !word.empty() && in.next_is("=");
    is_computation = !word.empty() && !is_instruction && (in.next_is("{") || (percent && in.next_is("(")));
    in.seek(start);
  }
  if (is_instruction) read_single_instruction(state);
  while (is_computation && !in.at_end()) read_computation(state);
  return is_computation || is_instruction;
}

}  // namespace

Program parse_program(std::string_view text, const OpTable& table, const ParseOptions& options) {
  ModuleState state{TextCursor(text, options.file_name), table, {}, {}, {}};
  require(!state.in.at_end(), "{}: {}; an HLO module begins with `HloModule` and its name", options.file_name,
          text.empty() ? "the text is empty" : "the text has only blanks and comments");
  const std::string form = other_form_of_program(text);
  require(form.empty(), "{}: the file is {}", options.file_name, form);
  state.in.skip_blanks();
  const bool is_bare = state.in.peek_identifier() != "HloModule" && read_bare(state);
  ModuleHeader header = is_bare ? ModuleHeader{} : read_header(state.in, state.program);
  if (options.num_partitions > 0) {
    if (header.has_num_partitions && state.program.num_partitions != options.num_partitions)
      state.in.fail_at(header.num_partitions_position,
                       fmt::format("the module is for {} partitions, but {} were requested",
                                   state.program.num_partitions, options.num_partitions));
    state.program.num_partitions = options.num_partitions;
    header.has_num_partitions = true;
  }
  if (!is_bare) state.sources = read_source_tables(state.in);
  if (!state.sources.text.empty()) state.program.other.push_back({std::string(kSourceTablesKey), state.sources.text});
  while (!state.in.at_end()) read_computation(state);
  if (state.program.computations.empty()) state.in.fail_expected("a computation");
  if (state.program.entry < 0) state.program.entry = static_cast<ComputationId>(state.program.computations.size()) - 1;
  name_the_nameless(state);
  name_elided_constants(state);
  if (is_bare) {
    const std::string& entry = state.program.entry_computation().name;
    state.program.name = entry == "_" ? entry : "module_" + entry;
  }
  check_header(state.in, header, state.program);
  attach_shardings(state, header, options.meshes);  // may determine the number of devices
  try {
    check_devices_of_collectives(state.program);
  } catch (Error& error) {
    throw error.prefix(options.file_name + ": ");
  }
  return std::move(state.program);
}

}  // namespace tessera
