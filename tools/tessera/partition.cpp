// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include "input.h"
#include "tessera/base/checked.h"
#include "tessera/base/text.h"
#include "tessera/ir/text.h"
#include "tessera/passes/passes.h"

namespace tessera::command {
namespace {

double modelled_milliseconds(const Partitioned& partitioned) {
  double sum = 0;
  for (const auto& note : partitioned.notes) sum += note.milliseconds;
  return sum;
}

// One paragraph for each collective, with times if a topology specifies the speed of links.
std::string explanation(const Partitioned& partitioned, bool with_times) {
  std::string out;
  Checked bytes = 0;
  bool is_known = true;
  const auto amount = [&](std::int64_t received, double time) {
    const std::string text = fmt::format("{} bytes received per device", received);
    return with_times ? text + fmt::format(", {:.6g} ms modelled", time) : text;
  };
  for (const auto& note : partitioned.notes) {
    bytes += note.bytes;
    is_known = is_known && note.rounds_known;
    const std::string part = note.parts == 1 ? "" : fmt::format(", part {} of {}", note.part + 1, note.parts);
    out += fmt::format("{} {}{}{}: {}\n", note.opcode, shown_collective(note), part,
                       note.axes.empty() ? "" : " over " + note.axes,
                       amount(note.bytes, note.milliseconds) + rounds_text(note.rounds, note.rounds_known));
    const auto line = [&](std::string_view label, const std::string& text) {
      if (!text.empty()) out += fmt::format("  {:<8}{}\n", label, text);
    };
    line("why", note.reason);
    line("at", note.source);
    line("from", note.from);
    line("to", note.to);
    line("next", note.next);
    line("remedy", note.remedy.text());
  }
  const std::int64_t count = collective_count(partitioned.notes);
  return out + fmt::format("{} collective{}, {}{}\n", count, count == 1 ? "" : "s",
                           amount(bytes.value_or_most(), modelled_milliseconds(partitioned)),
                           is_known ? "" : ", loops of unknown rounds counted as one round");
}

JsonObject remedy_json(const Remedy& remedy) {
  JsonObject out;
  out.set("kind", std::string(remedy.kind_name()));
  out.set("value", remedy.value);
  out.set("spec", remedy.spec);
  out.set("mesh", remedy.mesh);
  if (!remedy.detail.empty()) out.set("detail", remedy.detail);
  out.set("trial", std::string(remedy.trial_name()));
  if (remedy.trial != Remedy::Trial::kNone) out.set("bytes_saved", remedy.bytes_saved);
  return out;
}

std::string explanation_json(const Partitioned& partitioned) {
  std::vector<JsonObject> rows;
  for (const auto& note : partitioned.notes) {
    JsonObject& row = rows.emplace_back();
    row.set("name", note.collective);
    if (!note.computation.empty()) row.set("computation", note.computation);
    row.set("opcode", note.opcode);
    if (note.parts > 1) row.set("part", std::int64_t{note.part});
    row.set("axes", note.axes);
    row.set("bytes", note.bytes);
    row.set("rounds", note.rounds);
    row.set("rounds_known", note.rounds_known);
    row.set("modelled_milliseconds", note.milliseconds);
    row.set("asked", note.asked);
    row.set("reason", note.reason);
    row.set("source", note.source);
    row.set("from", note.from);
    row.set("to", note.to);
    if (!note.next.empty()) row.set("next", note.next);
    row.set("remedy", note.remedy.text());
    row.set("remedy_fields", remedy_json(note.remedy));
  }
  JsonObject out;
  out.set("collectives", rows);
  return out.str();
}

int run(const Arguments& arguments) {
  PartitionOptions options = how_to_partition(arguments);
  check_skipped_passes(arguments, options);
  const Program program = read_program(arguments);
  fmt::print(stderr, "{}{}{}", elided_constants_warning(program),
             options.automatic ? "" : nothing_sharded_note(program),
             arguments.has("mesh") && !options.automatic ? unused_axes_note(program) : "");
  options.limits.strict = arguments.has("strict");
  options.try_remedies = arguments.has("explain") || arguments.has("explain-json");
  if (arguments.has("max-bytes")) options.limits.bytes = arguments.number_or("max-bytes", 0);
  const auto start = std::chrono::steady_clock::now();
  const Partitioned partitioned = partition(program, options);
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  const std::string output = arguments.value_or("o", "-");
  const bool for_xla = arguments.has("for-xla");
  write_text(output,
             print_program(for_xla ? in_ops_of_hlo(partitioned.program) : partitioned.program, {.for_xla = for_xla}));
  if (arguments.has("explain")) {
    // To another stream than the program.
    if (output == "-")
      fmt::print(stderr, "{}", explanation(partitioned, machine_of(arguments).has_value()));
    else
      write_text("-", explanation(partitioned, machine_of(arguments).has_value()));
  }
  if (const auto path = arguments.value("explain-json")) write_text(*path, explanation_json(partitioned));
  if (const auto path = arguments.value("json")) {
    JsonObject json = stats_json(stats_of(partitioned.program, arguments));
    json.set("milliseconds", time.count());
    if (const auto machine = machine_of(arguments)) {
      json.set("modelled_milliseconds", modelled_milliseconds(partitioned));
      json.set("modelled_step_milliseconds", 1e3 * modelled_seconds(partitioned.program, *machine));
    }
    write_text(*path, json.str());
  }
  return kGood;
}

std::vector<Option> options() {
  auto out = sharding_options();
  for (const Option& option : how_to_partition_options()) out.push_back(option);
  out.push_back({"o", "OUT.hlo", "the output; default: standard output", {}, true});
  out.push_back(
      {"explain", "", "explain each collective: on standard output if -o names a file, otherwise on standard error"});
  out.push_back({"explain-json", "FILE", "write the explanations as JSON: {\"collectives\": [..]}", {}, true});
  out.push_back(
      {"strict", "", "an error if a collective exists that no annotation requires (FSDP's marks are annotations)"});
  out.push_back({"max-bytes", "N", "an error if a device receives more than N bytes", integer_in_range(0)});
  out.push_back({"for-xla", "", "omit the attributes that XLA does not accept, so that XLA can read the output"});
  out.push_back({"json", "FILE", "write the statistics and the time taken as JSON", {}, true});
  out.push_back(as_written_option());
  return out;
}

}  // namespace

const Verb kPartition = {"partition", "prints the program that each device runs",
                         "Shardings come from the text and from --annotate; propagation chooses the others. An "
                         "annotated value has the type of\n"
                         "its shard in the output.",
                         options(), run};

}  // namespace tessera::command
