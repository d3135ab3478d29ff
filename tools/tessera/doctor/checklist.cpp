// SPDX-License-Identifier: Apache-2.0
#include "doctor/checklist.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <map>
#include <utility>

#include "tessera/base/files.h"
#include "tessera/base/text.h"

namespace tessera::command {
namespace {

constexpr std::int64_t kFirstSteps = 3;  // in which programs are compiled and variables get their values
constexpr std::string_view kWarning = "warning";

template <class T>
T value_of(const JsonObject& fact, std::string_view key) {
  T out{};
  fact.read(key, out);
  return out;
}

std::int64_t count_of(const JsonObject& fact, std::string_view key) { return value_of<std::int64_t>(fact, key); }

std::vector<std::string> list_of(const JsonObject& fact, std::string_view key) {
  return value_of<std::vector<std::string>>(fact, key);
}

std::int64_t later_steps(const Record& record) { return std::max<std::int64_t>(0, isize(record.steps) - kFirstSteps); }

constexpr int kKilledBySignal = 128;  // exit code 128 + N

std::string signal_name(int signal) { return fmt::format("SIG{}", sigabbrev_np(signal)); }

bool exceeds_grace(const Record& record, const JobEnd& end) {
  return !record.has_ended && end.status != 0 && end.seconds_after_signal >= static_cast<double>(kGrace);
}

// How a job ended that got a signal.
std::string end_after_signal(const Record& record, const JobEnd& end) {
  const std::string sender = end.signal != 0 ? signal_name(end.signal) : "the SIGTERM of the doctor";
  if (exceeds_grace(record, end)) return fmt::format("killed {} s after {}, because it did not end", kGrace, sender);
  if (!record.has_ended) return "killed by " + sender;
  if (end.status != kKilledBySignal + (end.signal != 0 ? end.signal : SIGTERM))
    return fmt::format("ended with exit code {} after {}", end.status, sender);
  return "stopped by " + (end.signal != 0 ? sender : "the doctor");
}

std::string how_it_ended(const Record& record, const JobEnd& end) {
  constexpr int kLastSignal = 31;
  if ((end.signal != 0 || end.is_stopped) && end.status != 0) return end_after_signal(record, end);
  if (end.signal != 0) return "stopped by " + signal_name(end.signal);
  if (!record.has_ended && end.status > kKilledBySignal && end.status <= kKilledBySignal + kLastSignal)
    return fmt::format("killed by {} (exit code {})", signal_name(end.status - kKilledBySignal), end.status);
  return fmt::format("ended with exit code {}", end.status);
}

std::string steps_text(const Record& record) {
  return fmt::format("steps: {}{}", record.steps.size(),
                     record.evaluations == 0 ? "" : fmt::format(", evaluations: {}", record.evaluations));
}

Item check_program(const Record& record, const JobEnd& end) {
  constexpr int kStopped = kKilledBySignal + SIGTERM;
  const bool ends_well = end.status == 0 || (end.is_stopped && end.status == kStopped);
  const std::int64_t ranks = record.starts.empty() ? 0 : count_of(record.starts.back(), "ranks");
  const std::string how = how_it_ended(record, end);
  Item out{"program", fmt::format("ranks: {}, {}, {}", ranks, steps_text(record), how), "error"};
  if (record.starts.empty()) out.evidence = fmt::format("no rank has used Tessera, {}", how);
  if (!ends_well && end.signal == 0)
    out.advice = "see its messages above";
  else if (record.starts.empty())
    out.advice = "call tessera::launch() or make a tessera::Runtime in main()";
  else if (end.ranks > 1 && (record.starts.size() > 1 || ranks != end.ranks))
    out.advice = fmt::format("{} processes are not one job: link the MPI library whose mpirun starts them", end.ranks);
  else if (record.steps.empty())
    out.advice = "no step of the training has ended: call mark_step() or a compiled function";
  else if (exceeds_grace(record, end))
    out.finding = kWarning, out.advice = "end the program after SIGTERM, which schedulers send";
  else
    out.finding = end.signal == 0 ? "ok" : kWarning;
  return out;
}

// What programs do in later steps cannot be seen.
Item not_checked(const Record& record, std::string_view name) {
  return {name, fmt::format("not checked: {} of at least {} steps", record.steps.size(), kFirstSteps + 2), kWarning,
          "let the program run for more steps"};
}

// ---- compilations ---------------------------------------------------------------------------------------------------------

// The reason why a place needed another program than before.
std::string difference(const JsonObject& before, const JsonObject& now) {
  const auto old = list_of(before, "inputs");
  const auto inputs = list_of(now, "inputs");
  if (old.size() != inputs.size()) return fmt::format("it has {} inputs after {}", inputs.size(), old.size());
  const auto [was, is] = std::mismatch(old.begin(), old.end(), inputs.begin());
  return was == old.end() ? "its inputs are equal, so a constant or the control flow of the host has changed"
                          : fmt::format("input {} was {} before", *is, *was);
}

// A place may need one late program, for example to evaluate.
Item check_compilations(const Record& record) {
  Item out{"compilation", fmt::format("programs: {}", record.compilations.size())};
  std::map<std::string, const JsonObject*> last;  // by place
  std::map<std::string, std::int64_t> late;
  std::map<std::string, std::string> texts;
  for (const auto& [step, fact] : record.compilations) {
    const std::string cause = fact.text("cause");
    const auto before_place = cause.rfind(" at ");  // what precedes it may contain a shape
    const std::string place = before_place == std::string::npos ? cause : cause.substr(before_place + 4);
    const JsonObject* before = std::exchange(last[place], &fact);
    if (step <= kFirstSteps) continue;
    if (++late[place] > 1) out.finding = kWarning;
    texts[place] = fmt::format("; {} needs {} after step {}, the last one in step {}{}", place, late[place],
                               kFirstSteps, step, before == nullptr ? "" : ": " + difference(*before, fact));
  }
  for (const auto& [place, text] : texts) out.evidence += text;
  if (out.finding == kWarning) {
    out.advice = "give arrays few sizes (pad_to_multiple_of), make numbers that change tensors, use cond() or where()";
  } else if (later_steps(record) < 2) {
    out.finding = kWarning;
    out.advice = fmt::format("check at least {} steps: fewer do not show whether programs change", kFirstSteps + 2);
  }
  return out;
}

// ---- counters -------------------------------------------------------------------------------------------------------------

struct Growth {
  std::int64_t steps = 0;  // in which the counter grew
  std::int64_t amount = 0;
};

// How much each counter grew after the first steps.
std::map<std::string, Growth> growths(const Record& record) {
  std::map<std::string, Growth> out;
  for (std::int64_t step = kFirstSteps; step < isize(record.steps); ++step) {
    const auto before = value_of<JsonObject>(at(record.steps, step).before, "counters");
    const auto after = value_of<JsonObject>(at(record.steps, step).after, "counters");
    for (const std::string& name : after.keys()) {
      const std::int64_t grown = count_of(after, name) - count_of(before, name);
      if (grown <= 0) continue;
      ++out[name].steps;
      out[name].amount += grown;
    }
  }
  return out;
}

// Counters with these prefixes should not grow in most steps.
Item check_counters(const Record& record, std::string_view name, const std::vector<std::string_view>& prefixes,
                    std::string_view advice) {
  Item out{name, ""};
  if (later_steps(record) < 2) return not_checked(record, name);
  for (const auto& [counter, growth] : growths(record)) {
    if (std::none_of(prefixes.begin(), prefixes.end(), [&](auto prefix) { return counter.starts_with(prefix); }))
      continue;
    out.evidence += fmt::format("{}{} {} times in {} of {} steps", out.evidence.empty() ? "" : ", ", counter,
                                growth.amount, growth.steps, later_steps(record));
    if (2 * growth.steps <= later_steps(record)) continue;
    out.finding = kWarning;
    out.advice = advice;
  }
  if (out.evidence.empty()) out.evidence = fmt::format("none after step {}", kFirstSteps);
  return out;
}

// ---- data, machine, shardings ---------------------------------------------------------------------------------------------

Item check_data(const Record& record) {
  constexpr double kMostWait = 0.2;  // of the time of the steps
  if (later_steps(record) < 1) return not_checked(record, "data");
  const JsonObject& last = record.steps.back().after;
  const auto grown = [&](const char* key) {
    double out = 0;
    for (std::int64_t step = kFirstSteps; step < isize(record.steps); ++step)
      out += value_of<double>(at(record.steps, step).after, key) - value_of<double>(at(record.steps, step).before, key);
    return out;
  };
  const double share = grown("seconds") > 0 ? grown("loader_seconds") / grown("seconds") : 0;
  const double milliseconds =
      1e3 * grown("loader_seconds") / static_cast<double>(std::max<std::int64_t>(1, later_steps(record)));
  Item out{"data",
           value_of<double>(last, "loader_seconds") > 0
               ? fmt::format("a step waits {:.3f} ms for the loader, {:.0f}% of its time", milliseconds, 100 * share)
               : "the program has no data::Loader, so waits for data are not measured"};
  if (share > kMostWait) {
    out.finding = kWarning;
    out.advice = "increase num_workers of the loader";
  }
  if (count_of(record.starts.back(), "ranks") == 1) return out;
  out.evidence += fmt::format("; the ranks have compared {} files, and {} values from the host",
                              count_of(value_of<JsonObject>(last, "counters"), "FilesCompared"),
                              value_of<bool>(record.starts.back(), "compares_inputs") ? "compare" : "do not compare");
  return out;
}

Item check_machine(const Record& record) {
  const JsonObject& start = record.starts.back();
  std::int64_t bytes = 0;
  for (const auto& compilation : record.compilations) bytes = std::max(bytes, count_of(compilation.fact, "bytes"));
  Item out{"machine", fmt::format("a program needs up to {} on a rank", format_bytes(static_cast<double>(bytes)))};
  for (const std::string& line : split(start.text("environment"), '\n'))
    for (const std::string_view name : {"kernels ", "threads ", "note ", "memory ", "limit "})
      if (line.starts_with(name)) out.evidence += fmt::format("; {}: {}", trim(name), trim(line.substr(name.size())));
  if (!value_of<bool>(start, "uses_best_kernels")) out.advice = "remove TESSERA_ISA";
  if (!start.text("crowding").empty()) out.advice = "start fewer ranks on a node, or reduce TESSERA_NUM_THREADS";
  if (!out.advice.empty()) out.finding = kWarning;
  return out;
}

Item check_sharding(const Record& record) {
  if (count_of(record.starts.back(), "ranks") == 1) return {"sharding", "there is only one rank"};
  const JsonObject* step = nullptr;  // the program with the most inputs: a training step has all parameters
  for (const auto& [number, fact] : record.compilations)
    if (fact.text("program") == "step" &&
        (step == nullptr || list_of(fact, "inputs").size() > list_of(*step, "inputs").size()))
      step = &fact;
  if (step == nullptr) return {"sharding", "no step has compiled a program"};
  const auto idle = list_of(*step, "idle_axes");
  Item out{"sharding", fmt::format("{} of {} inputs of {} are sharded over {}", count_of(*step, "sharded_inputs"),
                                   list_of(*step, "inputs").size(), step->text("cause"), step->text("mesh"))};
  if (idle.empty()) return out;
  out.finding = kWarning;
  out.evidence +=
      fmt::format("; the ranks along {} do the same work, because it shards no value", fmt::join(idle, ", "));
  out.advice = "shard the batch or parameters over it (mark_sharding, fully_shard), or start fewer ranks";
  return out;
}

}  // namespace

Record read_record(const std::string& path, std::int64_t most_steps) {
  Record out;
  if (!why_unreadable(path).empty()) return out;
  std::vector<std::string> lines = split(read_file(path), '\n');
  if (!lines.empty()) lines.pop_back();  // it is empty, or still being written
  JsonObject state;                      // after the last step or evaluation
  for (const std::string& line : lines) {
    const JsonObject object = JsonObject::parse(line, path);
    out.has_ended = out.has_ended || object.has("end");
    if (isize(out.steps) == most_steps) continue;
    JsonObject fact;
    if (object.read("start", fact)) out.starts.push_back(fact);
    if (object.read("compilation", fact)) out.compilations.push_back({isize(out.steps) + 1, fact});
    if (object.read("step", fact)) out.steps.push_back({std::exchange(state, fact), fact});
    if (object.read("evaluation", fact)) {
      state = fact;
      ++out.evaluations;
    }
  }
  return out;
}

std::vector<Item> checklist(const Record& record, const JobEnd& end) {
  std::vector<Item> out{check_program(record, end)};
  if (record.starts.empty() || record.steps.empty()) return out;
  out.push_back(check_compilations(record));
  out.push_back(check_counters(record, "host reads",
                               {"host_read::", "sync::print", "sync::item", "sync::to_host", "sync::read_all"},
                               "read values only every few steps, several of them with one read_all()"));
  out.push_back(check_counters(record, "host ops", {"fallback::", "sync::host_region"},
                               "use ops and types that have kernels, and host_region() only outside of the loop"));
  out.push_back(check_counters(record, "initial values", {"sync::initialize"}, "make all variables before the loop"));
  out.push_back(check_data(record));
  out.push_back(check_machine(record));
  out.push_back(check_sharding(record));
  return out;
}

}  // namespace tessera::command
