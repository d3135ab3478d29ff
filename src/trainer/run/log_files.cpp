// SPDX-License-Identifier: Apache-2.0
#include "run/log_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "program_flags.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/log.h"
#include "tessera/base/rank_context.h"

namespace tessera::trainer {

namespace {

// The files of TensorBoard.
std::string events_folder(const TrainingArguments& arguments) {
  return arguments.logging_dir + (arguments.run_name.empty() ? "" : "/" + arguments.run_name);
}

void check_appendable(const std::string& path) {
  if (std::filesystem::exists(path))
    append_file(path, "");
  else
    check_writable(path);
}

}  // namespace

void check_log_files(const TrainingArguments& arguments) {
  const bool writes =
      arguments.reports_to("jsonl") || arguments.reports_to("csv") || arguments.reports_to("tensorboard");
  if (!writes || RankContext::current().rank() != 0) return;
  check_flag("--logging_dir: ", [&] {
    const std::string& folder = arguments.logging_dir;
    make_folder(folder);
    if (arguments.reports_to("jsonl")) check_appendable(folder + "/log.jsonl");
    if (arguments.reports_to("csv")) check_appendable(folder + "/log.csv");
    if (!arguments.reports_to("tensorboard")) return;
    make_folder(events_folder(arguments));
    check_writable(events_folder(arguments) + "/events");
  });
}

void write_results(const std::string& folder, const std::string& split, const std::function<void(JsonObject&)>& set) {
  JsonObject own;
  set(own);
  own.save(folder + "/" + split + "_results.json");
  const std::string path = folder + "/all_results.json";
  JsonObject all;
  try {
    if (std::filesystem::exists(path)) all = JsonObject::from_file(path);
  } catch (const Error&) {  // not JSON: a new file replaces it
  }
  set(all);
  all.save(path);
}

void LogFiles::write(const LogEntry& entry) {
  if (!arguments_.logging_dir.empty()) check_flag("--logging_dir: ", [&] { write_files(entry); });
}

void LogFiles::write_files(const LogEntry& entry) {
  const std::string& folder = arguments_.logging_dir;
  if (arguments_.reports_to("jsonl")) {
    make_folder(folder);
    append_file(folder + "/log.jsonl", json_line(entry));
  }
  if (arguments_.reports_to("csv")) write_csv(entry);
  if (arguments_.reports_to("tensorboard")) write_events(entry);
}

// A column for every value that an entry can have; an entry has some of them.
void LogFiles::write_csv(const LogEntry& entry) const {
  const std::string path = arguments_.logging_dir + "/log.csv";
  make_folder(arguments_.logging_dir);
  const auto values = scalars_of(entry);
  std::string header = "step";
  std::string line = std::to_string(entry.step);
  for (const std::string& name : scalar_names()) {
    const auto value = std::find_if(values.begin(), values.end(), [&](const auto& one) { return one.first == name; });
    header += "," + name;
    line += value == values.end() ? "," : fmt::format(",{}", value->second);
  }
  append_file(path, std::filesystem::exists(path) ? line + "\n" : header + "\n" + line + "\n");
}

// With Hugging Face's tags: train/loss, eval/loss.
void LogFiles::write_events(const LogEntry& entry) {
  if (!events_) events_ = std::make_unique<EventFile>(events_folder(arguments_));
  std::vector<std::pair<std::string, double>> scalars;
  for (const auto& [name, value] : scalars_of(entry))
    scalars.emplace_back(name.starts_with("eval_") ? "eval/" + name.substr(5) : "train/" + name, value);
  events_->write(entry.step, scalars);
}

StateWriter::~StateWriter() {
  {
    const std::lock_guard lock(mutex_);
    is_ended_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void StateWriter::begin(const TrainerState& state) {
  std::string error;
  {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    next_ = state;
    error = std::exchange(error_, "");
  }
  changed_.notify_all();
  if (!error.empty() && !std::exchange(has_warned_, true)) log_warning("{}", error);
}

void StateWriter::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !next_ && !is_writing_; });
}

void StateWriter::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return next_ || is_ended_; });
    if (!next_) return;
    const TrainerState state = *std::exchange(next_, std::nullopt);
    is_writing_ = true;
    lock.unlock();
    std::string error;
    try {
      state.save(folder_);
    } catch (const Error& failed) {  // only the last save, at the end, must succeed
      error = failed.what();
    }
    lock.lock();
    if (!error.empty()) error_ = error;
    is_writing_ = false;
    changed_.notify_all();
  }
}

}  // namespace tessera::trainer
