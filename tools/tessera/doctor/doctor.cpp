// SPDX-License-Identifier: Apache-2.0
// `tessera doctor -- PROGRAM`: runs a training program for a few steps and checks it.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>

#include "command_line.h"
#include "doctor/checklist.h"
#include "launch/child.h"
#include "launch/job_folder.h"
#include "tessera/base/files.h"
#include "tessera/base/text.h"

namespace tessera::command {
namespace {

constexpr std::int64_t kMostSteps = 1000;  // the record is read again and again while the program runs

// Starts the job once. What it prints goes to standard error, so that standard output has only the checklist.
std::vector<std::string> job_words(const Arguments& arguments) {
  const std::string command = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<std::string> out = {"/bin/sh", "-c", "exec \"$@\" >&2", "sh", command, "launch"};
  out.insert(out.end(), {"-np", arguments.value_or("np", "1"), "--max-restarts", "0"});
  out.insert(out.end(), {"--grace", std::to_string(kGrace), "--"});
  out.insert(out.end(), arguments.inputs().begin(), arguments.inputs().end());
  return out;
}

// Runs the job until it ends, and stops it after the last step that is checked.
JobEnd run_job(const Arguments& arguments, const std::string& record, std::int64_t steps) {
  constexpr auto kBetweenLooks = std::chrono::milliseconds(100);
  JobEnd out{.ranks = arguments.number_or("np", 1)};
  block_signals();
  Child job(
      {.words = job_words(arguments), .variables = {{"TESSERA_DOCTOR_FILE", record}}, .signal_at_death = SIGTERM});
  job.set_deadline(kBetweenLooks);
  std::optional<std::chrono::steady_clock::time_point> signalled;
  const auto send = [&](int signal) {
    if (!signalled) signalled = std::chrono::steady_clock::now();
    kill(job.process(), signal);
  };
  const auto pass_on = [&](int signal) {
    out.signal = signal;
    send(signal);
  };
  const auto look = [&] {
    if (isize(read_record(record, steps).steps) < steps) return job.set_deadline(kBetweenLooks);
    out.is_stopped = true;
    send(SIGTERM);
  };
  out.status = job.wait({.on_text = write_error_text, .on_signal = pass_on, .on_time = look}).status();
  if (signalled)
    out.seconds_after_signal = std::chrono::duration<double>(std::chrono::steady_clock::now() - *signalled).count();
  return out;
}

std::string checklist_text(const std::vector<Item>& items) {
  std::string out;
  for (const auto& [name, evidence, finding, advice] : items)
    out += fmt::format("{:<8} {:<15} {}{}{}\n", finding, name, evidence, advice.empty() ? "" : "; ", advice);
  return out;
}

std::string checklist_json(const std::vector<Item>& items) {
  std::vector<JsonObject> list;
  for (const auto& [name, evidence, finding, advice] : items) {
    JsonObject& one = list.emplace_back();
    one.set("name", std::string(name));
    one.set("finding", std::string(finding));
    one.set("evidence", evidence);
    one.set("advice", advice);
  }
  JsonObject out;
  out.set("items", list);
  return out.str();
}

int run_doctor(const Arguments& arguments) {
  constexpr std::int64_t kSteps = 10;
  const JobFolder folder;
  const std::string path = folder.path() + "/doctor";
  const std::int64_t steps = arguments.number_or("steps", kSteps);
  const JobEnd end = run_job(arguments, path, steps);
  const std::vector<Item> items = checklist(read_record(path, steps), end);
  const std::string json = arguments.value_or("json", "");
  write_standard_output(json == "-" ? checklist_json(items) : checklist_text(items));
  if (!json.empty() && json != "-") write_file(json, checklist_json(items));
  const bool is_good = std::all_of(items.begin(), items.end(), [](const Item& item) { return item.finding == "ok"; });
  return is_good ? kGood : kInputIsWrong;
}

}  // namespace

const Verb kDoctor = {
    .name = "doctor",
    .about = "runs a training program for a few steps and checks it",
    .notes =
        "Each item has one line: ok, warning or error, the evidence, and what to do. The exit code is 0 if all items "
        "are ok, and\n"
        "otherwise 1. After the steps, the doctor ends the program with SIGTERM: give it no --output_dir, or a new "
        "one.",
    .options = {{.name = "np",
                 .value = "N",
                 .help = "the number of ranks; also -np, -n and --num-cores; default: 1",
                 .check = integer_in_range(1),
                 .also = {"-np", "-n", "--num-cores"}},
                {"steps", "N", "the number of steps that are checked; default: 10", integer_in_range(1, kMostSteps)},
                {"json", "FILE", "write the items as JSON; - is standard output, instead of the text", {}, true}},
    .run = run_doctor,
    .input = "-- PROGRAM ARGUMENTS...",
    .input_meaning = "the program to run: tessera doctor -np N -- PROGRAM ARGUMENTS...",
    .takes_program = true};

}  // namespace tessera::command
