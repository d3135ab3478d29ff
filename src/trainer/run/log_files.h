// SPDX-License-Identifier: Apache-2.0
// The files of --report_to, and trainer_state.json. Only rank 0 writes them.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "run/event_file.h"
#include "tessera/base/json_object.h"
#include "tessera/trainer/arguments.h"
#include "tessera/trainer/trainer_state.h"

namespace tessera::trainer {

/// On rank 0, creates --logging_dir, and checks that the files of --report_to can be written there. Call it before the
/// training. Error, with the name of the flag, if they cannot.
void check_log_files(const TrainingArguments& arguments);

/// Writes SPLIT_results.json in a folder, and adds its values to all_results.json, as the example programs of Hugging
/// Face do. `set` gives an object the values.
void write_results(const std::string& folder, const std::string& split, const std::function<void(JsonObject&)>& set);

/// log.jsonl, log.csv and TensorBoard's events in --logging_dir.
class LogFiles {
 public:
  explicit LogFiles(const TrainingArguments& arguments) : arguments_(arguments) {}
  /// Appends an entry. Error, with the name of the flag, if a file cannot be written.
  void write(const LogEntry& entry);

 private:
  void write_files(const LogEntry& entry);
  void write_csv(const LogEntry& entry) const;
  void write_events(const LogEntry& entry);

  const TrainingArguments& arguments_;
  std::unique_ptr<EventFile> events_;
};

/// Writes trainer_state.json while the training continues. If states come faster than they are written, only the newest one
/// is written.
class StateWriter {
 public:
  explicit StateWriter(std::string folder) : folder_(std::move(folder)) {}
  /// Waits for the write under way.
  ~StateWriter();
  StateWriter(const StateWriter&) = delete;
  StateWriter& operator=(const StateWriter&) = delete;
  /// Starts to write a state. Prints a warning, once, if an earlier one could not be written.
  void begin(const TrainerState& state);
  /// Waits for the write under way.
  void finish();

 private:
  void work();
  std::string folder_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<TrainerState> next_;
  bool is_writing_ = false;
  bool is_ended_ = false;
  bool has_warned_ = false;
  std::string error_;
};

}  // namespace tessera::trainer
