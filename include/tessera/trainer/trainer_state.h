// SPDX-License-Identifier: Apache-2.0
// trainer_state.json in the format of Hugging Face's Trainer: the log of the run, with losses as full doubles.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/json_object.h"

namespace tessera::trainer {

/// One update or evaluation in the log. The file omits values that were not measured.
struct LogEntry {
  std::int64_t step = 0;
  double epoch = 0;
  std::optional<double> loss{};
  std::optional<double> learning_rate{};
  std::optional<double> grad_norm{};
  std::optional<double> tokens_per_second{};
  std::optional<double> mfu{};
  std::optional<double> exposed_communication_seconds{};  // of an update; not part of the Trainer's format
  std::optional<double> eval_loss{};
  std::optional<double> eval_accuracy{};
  std::vector<std::pair<std::string, double>> eval_metrics{};  // further metrics, such as f1; in the file: eval_f1
  std::optional<double> num_input_tokens_seen{};
  // As in mmf's log lines; not part of the Trainer's format.
  std::optional<double> ups{};               // updates per second since the last entry
  std::optional<double> time_since_start{};  // seconds since the training began
  std::optional<double> eta{};               // seconds until it ends at this speed
};

/// The values of an entry that were measured, by the names of the file, without the step.
std::vector<std::pair<std::string, double>> scalars_of(const LogEntry& entry);
/// The names of all values that an entry of any task can have, without the step and eval_metrics.
std::vector<std::string> scalar_names();
/// The entry as one line of JSON, with a line break at the end.
std::string json_line(const LogEntry& entry);

/// The state of a run, and its log.
struct TrainerState {
  std::int64_t max_steps = 0;
  std::int64_t num_train_epochs = 0;  // that the complete run begins
  std::int64_t logging_steps = 0;
  std::int64_t train_batch_size = 0;  // rows of a micro-batch
  double total_flos = 0;              // floating-point operations so far
  std::int64_t global_step = 0;       // updates so far, logged or not
  double epoch = 0;
  std::optional<double> best_metric{};  // of --metric_for_best_model
  std::string best_model_checkpoint{};  // its folder; "": none
  std::int64_t num_input_tokens_seen = 0;
  std::map<std::string, JsonObject> stateful_callbacks{};  // their state, by the name of the callback
  std::vector<LogEntry> log_history;

  [[nodiscard]] JsonObject to_json() const;
  /// Error if a value has another type.
  static TrainerState from_json(const JsonObject& json);
  /// Writes FOLDER/trainer_state.json atomically. Creates the folder.
  void save(const std::string& folder) const;
};

}  // namespace tessera::trainer
