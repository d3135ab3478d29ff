// SPDX-License-Identifier: Apache-2.0
#include "tessera/trainer/trainer_state.h"

#include <algorithm>
#include <cmath>

#include "tessera/base/files.h"
#include "tessera/trainer/arguments.h"

namespace tessera::trainer {
namespace {

// The values of an entry besides its step, with their names.
struct Value {
  const char* name;
  std::optional<double> LogEntry::*member;
};
constexpr Value kValues[] = {{"loss", &LogEntry::loss},
                             {"learning_rate", &LogEntry::learning_rate},
                             {"grad_norm", &LogEntry::grad_norm},
                             {"tokens_per_second", &LogEntry::tokens_per_second},
                             {"mfu", &LogEntry::mfu},
                             {"exposed_communication_seconds", &LogEntry::exposed_communication_seconds},
                             {"num_input_tokens_seen", &LogEntry::num_input_tokens_seen},
                             {"ups", &LogEntry::ups},
                             {"time_since_start", &LogEntry::time_since_start},
                             {"eta", &LogEntry::eta},
                             {"eval_loss", &LogEntry::eval_loss},
                             {"eval_accuracy", &LogEntry::eval_accuracy}};

JsonObject entry_json(const LogEntry& entry) {
  JsonObject out;
  for (const auto& [name, value] : scalars_of(entry)) out.set(name, value);
  out.set("step", entry.step);
  return out;
}

void read_metrics(const JsonObject& json, LogEntry& out) {
  for (const std::string& key : json.keys()) {
    const bool has_member =
        std::any_of(std::begin(kValues), std::end(kValues), [&](const Value& value) { return key == value.name; });
    double number = 0;
    if (has_member || !key.starts_with("eval_") || json.is_null(key)) continue;
    json.read(key, number);
    out.eval_metrics.emplace_back(key.substr(5), number);
  }
}

}  // namespace

std::vector<std::pair<std::string, double>> scalars_of(const LogEntry& entry) {
  std::vector<std::pair<std::string, double>> out = {{"epoch", entry.epoch}};
  for (const Value& value : kValues)
    if (const auto& number = entry.*value.member; number && std::isfinite(*number))  // JSON has no other numbers
      out.emplace_back(value.name, *number);
  for (const auto& [name, value] : entry.eval_metrics)
    if (std::isfinite(value)) out.emplace_back("eval_" + name, value);
  return out;
}

std::vector<std::string> scalar_names() {
  std::vector<std::string> out = {"epoch"};
  for (const Value& value : kValues) out.emplace_back(value.name);
  return out;
}

std::string json_line(const LogEntry& entry) {
  std::string out;
  bool is_indentation = false;
  for (const char c : entry_json(entry).str()) {
    if (c == '\n') is_indentation = true;
    if (is_indentation && (c == '\n' || c == ' ')) continue;
    is_indentation = false;
    out += c;
  }
  return out + "\n";
}

JsonObject TrainerState::to_json() const {
  JsonObject out;
  best_metric ? out.set("best_metric", *best_metric) : out.set_null("best_metric");
  best_model_checkpoint.empty() ? out.set_null("best_model_checkpoint")
                                : out.set("best_model_checkpoint", best_model_checkpoint);
  out.set("epoch", epoch);
  out.set("global_step", global_step);
  out.set("is_hyper_param_search", false);
  out.set("is_local_process_zero", true);
  out.set("is_world_process_zero", true);
  std::vector<JsonObject> entries;
  for (const auto& entry : log_history) entries.push_back(entry_json(entry));
  out.set("log_history", entries);
  out.set("logging_steps", logging_steps);
  out.set("max_steps", max_steps);
  out.set("num_train_epochs", num_train_epochs);
  out.set("num_input_tokens_seen", num_input_tokens_seen);
  if (!stateful_callbacks.empty()) {
    JsonObject callbacks;
    for (const auto& [name, state] : stateful_callbacks) callbacks.set(name, state);
    out.set("stateful_callbacks", callbacks);
  }
  out.set("total_flos", total_flos);
  out.set("train_batch_size", train_batch_size);
  return out;
}

TrainerState TrainerState::from_json(const JsonObject& json) {
  TrainerState out;
  json.read("max_steps", out.max_steps);
  double epochs = 0;  // older versions wrote the value of the flag
  json.read("num_train_epochs", epochs);
  if (epochs > 0 && epochs <= kMostUpdates) out.num_train_epochs = static_cast<std::int64_t>(std::ceil(epochs));
  json.read("logging_steps", out.logging_steps);
  json.read("train_batch_size", out.train_batch_size);
  json.read("total_flos", out.total_flos);
  json.read("global_step", out.global_step);
  json.read("epoch", out.epoch);
  json.read("num_input_tokens_seen", out.num_input_tokens_seen);
  JsonObject callbacks;
  json.read("stateful_callbacks", callbacks);
  for (const std::string& name : callbacks.keys()) callbacks.read(name, out.stateful_callbacks[name]);
  if (!json.is_null("best_metric")) json.read("best_metric", out.best_metric);
  if (!json.is_null("best_model_checkpoint")) json.read("best_model_checkpoint", out.best_model_checkpoint);
  std::vector<JsonObject> entries;
  json.read("log_history", entries);
  for (const JsonObject& entry : entries) {
    LogEntry& one = out.log_history.emplace_back();
    entry.read("step", one.step);
    entry.read("epoch", one.epoch);
    for (const Value& value : kValues) entry.read(value.name, one.*value.member);
    read_metrics(entry, one);
  }
  return out;
}

void TrainerState::save(const std::string& folder) const {
  make_folder(folder);
  to_json().save(folder + "/trainer_state.json");
}

}  // namespace tessera::trainer
