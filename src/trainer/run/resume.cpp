// SPDX-License-Identifier: Apache-2.0
#include "run/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/log.h"
#include "tessera/base/rank_context.h"
#include "tessera/checkpoint/pretrained.h"
#include "tessera/frontend/tensor/tensor.h"

namespace tessera::trainer {
namespace {

constexpr std::string_view kSchedule = "schedule_";  // the keys of the schedule's state begin with this

JsonObject run_json(const ResumeState& run) {
  const RandomState random = random_state();
  JsonObject out;
  out.set("samples", run.samples);
  out.set("random_seed", static_cast<std::int64_t>(random.seed));
  out.set("random_step", static_cast<std::int64_t>(random.step));
  out.set("unlogged_loss", run.unlogged_loss);
  out.set("unlogged_steps", run.unlogged_steps);
  out.set("data_seed", run.data_seed);
  out.set("samples_per_epoch", run.samples_per_epoch);
  out.set("data_hash", run.data_hash);
  out.set("accumulation_steps", run.accumulation_steps);
  out.set("epochs_before", run.epochs_before);
  out.set("evaluation_due", run.evaluation_due);
  out.set("save_due", run.save_due);
  for (const auto& [name, value] : run.schedule) out.set(std::string(kSchedule) + name, value);
  return out;
}

void warn_of_other_accumulation(std::int64_t before, std::int64_t now) {
  if (before != now && RankContext::current().rank() == 0)
    log_warning(
        "the run had {} micro-batches in an update, now it has {}; to keep the old number, give "
        "--gradient_accumulation_steps {}",
        before, now, before);
}

// The flag that gives the training data, as in ` (--train_file a.txt)`; "" if there is none.
std::string data_flag_text(const JsonObject& flags) {
  for (const char* name : {"train_file", "dataset_name", "datadir", "task_name"}) {
    std::string value;
    if (flags.has(name) && !flags.is_null(name) && flags.read(name, value) && !value.empty())
      return fmt::format(" (--{} {})", name, value);
  }
  return "";
}

// The flags of the run that has written the checkpoint. Older checkpoints do not have them.
JsonObject flags_in(const Checkpoint& from) {
  const auto names = from.document_names();
  const bool has_flags = std::find(names.begin(), names.end(), "training_args") != names.end();
  return has_flags ? from.document("training_args") : JsonObject();
}

// The position in the data is a number of samples, which is another number of epochs if the data has another size.
void warn_of_other_size(const TrainingArguments& arguments, const Checkpoint& from, const ResumeState& before,
                        const ResumeState& now) {
  const auto epochs = [&](std::int64_t size) {
    return static_cast<double>(before.samples) / static_cast<double>(size);
  };
  const std::string effect =
      arguments.ignore_data_skip
          ? "the run begins with the first sample (--ignore_data_skip)"
          : fmt::format(
                "the run continues after {} samples, which are {:.2f} epochs instead of {:.2f}: some samples are "
                "repeated or left out (--ignore_data_skip begins with the first sample)",
                before.samples, epochs(now.samples_per_epoch), epochs(before.samples_per_epoch));
  log_warning("the data has another number of samples: {} in an epoch{} before, {}{} now; {}", before.samples_per_epoch,
              data_flag_text(flags_in(from)), now.samples_per_epoch, data_flag_text(arguments.json()), effect);
}

void warn_of_other_samples(const TrainingArguments& arguments, const Checkpoint& from, const ResumeState& before,
                           const ResumeState& now) {
  if (before.samples_per_epoch != now.samples_per_epoch) return warn_of_other_size(arguments, from, before, now);
  if (before.data_seed != now.data_seed)
    log_warning(
        "the run had the data seed {}, now it has {}: the samples have another order, so some are repeated or left out",
        before.data_seed, now.data_seed);
  else if (before.data_hash != 0 && now.data_hash != 0 && before.data_hash != now.data_hash)
    log_warning(
        "the run had other training data or another --train_sampling_strategy: it may train on the same samples again");
}

ResumeState read_run(const JsonObject& json, const ResumeState& now) {
  ResumeState out = now;
  std::int64_t seed = 0;
  std::int64_t step = 0;
  json.read("samples", out.samples);
  json.read("random_seed", seed);
  json.read("random_step", step);
  json.read("unlogged_loss", out.unlogged_loss);
  json.read("unlogged_steps", out.unlogged_steps);
  json.read("data_seed", out.data_seed);
  json.read("samples_per_epoch", out.samples_per_epoch);
  json.read("data_hash", out.data_hash);
  // Missing in older checkpoints:
  json.read("accumulation_steps", out.accumulation_steps);
  json.read("epochs_before", out.epochs_before);
  json.read("evaluation_due", out.evaluation_due);
  json.read("save_due", out.save_due);
  for (const std::string& key : json.keys())
    if (key.starts_with(kSchedule)) json.read(key, out.schedule[key.substr(kSchedule.size())]);
  warn_of_other_accumulation(out.accumulation_steps, now.accumulation_steps);
  set_random_state({static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(step)});
  return out;
}

Checkpoint loaded_checkpoint(const TrainingArguments& arguments, const std::map<std::string, StateDict>& states) {
  if (arguments.resume_from_checkpoint != "true") return load_checkpoint(arguments.resume_from_checkpoint, states);
  auto newest = load_newest_checkpoint(arguments.output_dir, states);
  require(newest.has_value(), "--resume_from_checkpoint true: {} contains {}", arguments.output_dir,
          checkpoints_in(arguments.output_dir).empty() ? "no checkpoint" : "only damaged checkpoints");
  return *std::move(newest);
}

// The newest checkpoint is the one with the highest number, and the run renames those after its step.
void check_name(const std::string& folder, std::int64_t step) {
  const std::string expected = fmt::format("checkpoint-{}", step);
  require(std::filesystem::path(folder).filename() == expected,
          "--resume_from_checkpoint true: {} contains the state after step {}; rename it to {}, or give "
          "--resume_from_checkpoint {} to continue from it",
          folder, step, expected, folder);
}

// Damaged ones, and those of a run that this run leaves. They would count as the newest ones of this run.
void set_later_checkpoints_aside(const std::string& folder, std::int64_t step) {
  try {
    for (const std::string& path : set_checkpoints_aside(folder, step))
      log_warning("renamed {} to {}.replaced, because the run continues from step {}", path, path, step);
  } catch (const std::exception& error) {  // the folder cannot be written; saves will say so
    log_warning("{}", error.what());
  }
}

}  // namespace

CheckpointContent checkpoint_of(const TrainingArguments& arguments, const TrainingSetup& setup,
                                const TrainerState& state, const ResumeState& run) {
  CheckpointContent out;
  out.states["model"] = setup.network->state_dict();
  out.documents.emplace("config", config_json(*setup.network));
  out.documents.emplace("trainer_state", state.to_json());
  if (arguments.save_only_model) return out;
  out.states["optimizer"] = setup.optimizer->state_dict();
  JsonObject state_of_run = run_json(run);
  if (setup.scaler)
    for (const NamedTensor& entry : setup.scaler->state_dict().entries())
      state_of_run.set(entry.name, entry.tensor.item());
  out.documents.emplace("run_state", std::move(state_of_run));
  return out;
}

// Checkpoints of runs without a scaler lack its state; then it is the initial one.
void read_scaler(const JsonObject& json, optim::GradScaler& scaler) {
  StateDict given;
  for (const NamedTensor& entry : scaler.state_dict().entries()) {
    double value = 0;
    if (!json.read(entry.name, value)) return;
    given.add({entry.name, Tensor::scalar(entry.tensor.dtype(), value), {}});
  }
  scaler.load_state_dict(given);
}

std::string resume_run(const TrainingArguments& arguments, TrainingSetup& setup, TrainerState& state,
                       ResumeState& run) {
  if (arguments.resume_from_checkpoint.empty()) return "";
  const StateDict optimizer = setup.optimizer->state_dict();
  const Checkpoint from =
      loaded_checkpoint(arguments, {{"model", setup.network->state_dict()}, {"optimizer", optimizer}});
  setup.optimizer->set_step_count(static_cast<std::int64_t>(optimizer.find("step")->tensor.item()));
  state = TrainerState::from_json(from.document("trainer_state"));
  if (arguments.resume_from_checkpoint == "true") check_name(from.folder(), state.global_step);
  ResumeState before = read_run(from.document("run_state"), run);
  if (RankContext::current().rank() == 0 && arguments.do_train) warn_of_other_samples(arguments, from, before, run);
  before.data_hash = run.data_hash;
  run = std::move(before);
  if (setup.scaler) read_scaler(from.document("run_state"), *setup.scaler);
  if (RankContext::current().rank() == 0 && arguments.do_train && !arguments.output_dir.empty())
    set_later_checkpoints_aside(arguments.output_dir, state.global_step);
  return from.folder();
}

std::int64_t rows_of_resumed_run(const TrainingArguments& arguments) {
  const std::string& given = arguments.resume_from_checkpoint;
  if (given.empty()) return 0;
  std::vector<std::string> folders;
  if (given != "true") folders = {given};
  if (given == "true")
    for (const auto& [step, folder] : checkpoints_in(arguments.output_dir)) folders.push_back(folder);
  std::reverse(folders.begin(), folders.end());  // the newest one first
  for (const std::string& folder : folders) try {
      return TrainerState::from_json(Checkpoint(folder).document("trainer_state")).train_batch_size;
    } catch (const Error&) {  // damaged, so that an older one may be loaded
    }
  return 0;
}

}  // namespace tessera::trainer
