// SPDX-License-Identifier: Apache-2.0
#include "tessera/trainer/trainer_state.h"

#include <cmath>

#include "tessera/base/files.h"

namespace tessera::trainer {
namespace {

JsonObject entry_json(const LogEntry& entry) {
  JsonObject out;
  out.set("epoch", entry.epoch);
  const auto set = [&](const char* key, const std::optional<double>& value) {
    if (value && std::isfinite(*value)) out.set(key, *value);  // JSON has no other numbers
  };
  set("loss", entry.loss);
  set("learning_rate", entry.learning_rate);
  set("grad_norm", entry.grad_norm);
  set("tokens_per_second", entry.tokens_per_second);
  set("mfu", entry.mfu);
  set("exposed_communication_seconds", entry.exposed_communication_seconds);
  set("eval_loss", entry.eval_loss);
  set("eval_accuracy", entry.eval_accuracy);
  out.set("step", entry.step);
  return out;
}

}  // namespace

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
  out.set("total_flos", total_flos);
  out.set("train_batch_size", train_batch_size);
  return out;
}

TrainerState TrainerState::from_json(const JsonObject& json) {
  TrainerState out;
  json.read("max_steps", out.max_steps);
  json.read("num_train_epochs", out.num_train_epochs);
  json.read("logging_steps", out.logging_steps);
  json.read("train_batch_size", out.train_batch_size);
  json.read("total_flos", out.total_flos);
  json.read("global_step", out.global_step);
  json.read("epoch", out.epoch);
  if (!json.is_null("best_metric")) json.read("best_metric", out.best_metric);
  if (!json.is_null("best_model_checkpoint")) json.read("best_model_checkpoint", out.best_model_checkpoint);
  std::vector<JsonObject> entries;
  json.read("log_history", entries);
  for (const JsonObject& entry : entries) {
    LogEntry& one = out.log_history.emplace_back();
    entry.read("step", one.step);
    entry.read("epoch", one.epoch);
    entry.read("loss", one.loss);
    entry.read("learning_rate", one.learning_rate);
    entry.read("grad_norm", one.grad_norm);
    entry.read("tokens_per_second", one.tokens_per_second);
    entry.read("mfu", one.mfu);
    entry.read("exposed_communication_seconds", one.exposed_communication_seconds);
    entry.read("eval_loss", one.eval_loss);
    entry.read("eval_accuracy", one.eval_accuracy);
  }
  return out;
}

void TrainerState::save(const std::string& folder) const {
  make_folder(folder);
  to_json().save(folder + "/trainer_state.json");
}

}  // namespace tessera::trainer
