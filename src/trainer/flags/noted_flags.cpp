// SPDX-License-Identifier: Apache-2.0
#include "flags/noted_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/optim/factory.h"

namespace tessera::trainer {
namespace {

struct Notes {
  TrainingArguments& arguments;
  const ArgumentParser& parser;

  [[nodiscard]] std::string value_of(std::string_view flag) const {
    for (const auto& [name, value] : parser.values())
      if (name == flag) return value;
    return "";
  }
  // A flag that asks for nothing needs no note.
  [[nodiscard]] bool asks(std::string_view flag) const {
    const std::string value = value_of(flag);
    return parser.was_chosen(flag) && value != "no" && value != "false";
  }
  // `why` begins with the word after "no effect".
  void without_effect(std::initializer_list<const char*> flags, std::string_view why) const {
    for (const char* flag : flags)
      if (asks(flag)) arguments.notes.push_back(fmt::format("--{} {} has no effect{}", flag, value_of(flag), why));
  }
};

// The intervals of saves and evaluations that do not happen.
void note_intervals(const Notes& notes) {
  const TrainingArguments& a = notes.arguments;
  if (a.output_dir.empty())
    notes.without_effect({"save_strategy", "save_steps", "save_total_limit", "save_only_model"},
                         " without --output_dir: nothing is saved");
  else if (a.save_strategy != "steps")
    notes.without_effect({"save_steps"}, fmt::format(" with --save_strategy {}", a.save_strategy));
  if (a.eval_strategy == "no")
    notes.without_effect({"eval_steps", "eval_delay"}, " without --eval_strategy: no update is evaluated");
  else if (a.eval_strategy != "steps")
    notes.without_effect({"eval_steps"}, fmt::format(" with --eval_strategy {}", a.eval_strategy));
}

void note_length(const Notes& notes) {
  const std::int64_t steps = notes.arguments.max_steps;
  if (steps > 0)
    notes.without_effect({"num_train_epochs"}, fmt::format(": --max_steps {} is the number of updates", steps));
}

void note_settings(const Notes& notes) {
  const TrainingArguments& a = notes.arguments;
  const std::vector<std::string> used = optim::settings_of(a.optim);
  const std::string why = fmt::format(": the optimizer {} does not use it", a.optim);
  for (const auto& [flag, setting] : std::initializer_list<std::pair<const char*, const char*>>{
           {"adam_beta1", "beta1"}, {"adam_beta2", "beta2"}, {"adam_epsilon", "epsilon"}})
    if (std::find(used.begin(), used.end(), setting) == used.end()) notes.without_effect({flag}, why);
  if (a.optim != "sgd") notes.without_effect({"momentum"}, ": only the optimizer sgd uses it");
}

void note_rate(const Notes& notes) {
  const TrainingArguments& a = notes.arguments;
  if (!optim::computes_rate(a.optim, a.optim_args)) return;
  require(
      !notes.parser.was_chosen("learning_rate"),
      "--learning_rate {} and --optim_args relative_step=true exclude each other: with relative_step, the optimizer {} "
      "computes the learning rate from the number of the update",
      a.learning_rate, a.optim);
  notes.without_effect({"lr_scheduler_type", "lr_scheduler_kwargs", "warmup_steps", "warmup_ratio"},
                       ": with relative_step, the learning rate follows from the number of the update");
}

// What docs/training.md excepts from the promise of --full_determinism.
void note_determinism(const Notes& notes) {
  TrainingArguments& a = notes.arguments;
  if (!a.full_determinism) return;
  const auto note = [&](bool is_excepted, const std::string& flag, const char* why) {
    if (is_excepted)
      a.notes.push_back(
          fmt::format("--full_determinism with {}: the last bits may differ between meshes, because {}", flag, why));
  };
  note(a.bf16 || a.fp16, a.fp16 ? "--fp16" : "--bf16", "values may be rounded at other places");
  note(a.optim == "adafactor" || a.optim == "muon", "--optim " + a.optim, "its updates add over shards");
  note(!a.tensor_parallel.empty(), "--tensor_parallel " + a.tensor_parallel, "tensor parallelism divides sums");
}

}  // namespace

void note_flags(TrainingArguments& arguments, const ArgumentParser& parser) {
  const Notes notes{arguments, parser};
  note_intervals(notes);
  note_length(notes);
  note_settings(notes);
  note_rate(notes);
  note_determinism(notes);
}

}  // namespace tessera::trainer
