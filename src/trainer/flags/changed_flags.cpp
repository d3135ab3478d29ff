// SPDX-License-Identifier: Apache-2.0
#include "flags/changed_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "tessera/base/error.h"
#include "tessera/base/log.h"

namespace tessera::trainer {
namespace {

// A program has some of them.
constexpr const char* kFlagsOfTraining[] = {
    // Optimizer and schedule.
    "optim", "optim_args", "learning_rate", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon", "momentum",
    "max_grad_norm", "lr_scheduler_type", "lr_scheduler_kwargs", "warmup_steps", "warmup_ratio", "max_steps",
    "num_train_epochs",
    // Model, loss and precision.
    "config_overrides", "label_smoothing_factor", "neftune_noise_alpha", "mlm_probability", "seed", "bf16", "fp16",
    "dtype",
    // The best model: its metric is compared with that of earlier checkpoints.
    "metric_for_best_model",
    // Samples.
    "tokenizer_name", "text_column_name", "block_size", "max_seq_length", "line_by_line", "max_train_samples",
    "image_size", "augment"};

using FlagValues = std::map<std::string, std::string>;

FlagValues values_of(const TrainingArguments& arguments) {
  FlagValues out;
  for (auto& [name, value] : arguments.values()) out.emplace(name, value);
  // Without the flag, the tokenizer is that of the model or of the token file. json() does not save it either.
  const std::vector<std::string>& derived = arguments.derived_flags;
  const bool is_default = arguments.tokenizer_name == TrainingArguments{}.tokenizer_name ||
                          std::find(derived.begin(), derived.end(), "tokenizer_name") != derived.end();
  if (const auto found = out.find("tokenizer_name"); found != out.end() && !arguments.tokenizer_is_given && is_default)
    found->second.clear();
  return out;
}

// The values in a file; none if it cannot be read.
FlagValues values_in(const std::string& file, const TrainingArguments& like) {
  TrainingArguments read;
  read.program = like.program;
  ArgumentParser parser(like.program_name, "");
  read.add_flags(parser);
  try {
    (void)parser.parse({file});
  } catch (const Error&) {
    return {};
  }
  read.tokenizer_is_given = parser.was_given("tokenizer_name");
  return values_of(read);
}

std::string shown(const std::string& value) { return value.empty() ? "not given" : value; }

}  // namespace

std::vector<std::string> changed_flags(const TrainingArguments& arguments, const std::string& folder) {
  const FlagValues before = values_in(folder + "/training_args.json", arguments);
  const FlagValues now = values_of(arguments);
  std::vector<std::string> out;
  for (const std::string flag : kFlagsOfTraining) {
    if (flag == "num_train_epochs" && arguments.max_steps > 0) continue;  // it has no effect
    const auto old = before.find(flag);
    const auto own = now.find(flag);
    if (old != before.end() && own != now.end() && old->second != own->second)
      out.push_back(fmt::format("--{} was {}, now it is {}", flag, shown(old->second), shown(own->second)));
  }
  return out;
}

void warn_of_changed_flags(const TrainingArguments& arguments, const std::string& checkpoint) {
  std::error_code ignored;
  std::string folder = checkpoint;
  if (!std::filesystem::exists(checkpoint + "/training_args.json", ignored)) {  // of an older version
    folder = std::filesystem::path(checkpoint + "/").parent_path().parent_path().string();
    if (folder.empty()) folder = ".";
  }
  const std::vector<std::string> changed = changed_flags(arguments, folder);
  if (!changed.empty()) log_warning("the run had other flags: {}", fmt::format("{}", fmt::join(changed, "; ")));
}

}  // namespace tessera::trainer
