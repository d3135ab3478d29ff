// SPDX-License-Identifier: Apache-2.0
#include "tessera/trainer/arguments.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>

#include "program_flags.h"
#include "tessera/base/error.h"
#include "tessera/sharding/mesh_text.h"

namespace tessera::trainer {

namespace {

std::vector<std::string> metric_choices(TrainingProgram program) {
  std::vector<std::string> names = {"loss"};
  if (program == TrainingProgram::kClm || program == TrainingProgram::kMlm) names.emplace_back("perplexity");
  if (program == TrainingProgram::kClm) names.emplace_back("bits_per_byte");
  if (program == TrainingProgram::kClassification || program == TrainingProgram::kImages)
    names.emplace_back("accuracy");
  std::vector<std::string> out = {""};
  for (const std::string& name : names) {
    out.push_back(name);
    out.push_back("eval_" + name);
  }
  return out;
}

}  // namespace

void TrainingArguments::add_flags(ArgumentParser& parser) {
  add_program_flags(*this, parser);
  parser.group("batches and length")
      .flag("per_device_train_batch_size", per_device_train_batch_size, "samples per data shard [8]")
      .flag("global_batch_size", global_batch_size, "samples over all data shards: the same batches for every mesh")
      .flag("per_device_eval_batch_size", per_device_eval_batch_size, "samples per data shard in evaluation [8]")
      .flag("max_eval_samples", max_eval_samples, "evaluate on at most this many held-out samples [all]")
      .flag("gradient_accumulation_steps", gradient_accumulation_steps, "micro-batches per update")
      .flag("max_steps", max_steps, "number of updates; -1: num_train_epochs decides")
      .flag("num_train_epochs", num_train_epochs, "passes over the data")
      .flag("dataloader_drop_last", dataloader_drop_last, "skip the last batch of an epoch if it is short")
      .flag("dataloader_num_workers", dataloader_num_workers,
            "threads of each rank that make batches in advance; 0: none")
      .flag("dataloader_prefetch_factor", dataloader_prefetch_factor, "batches that each thread makes in advance [2]");
  parser.group("optimizer")
      .choice("optim", optim, {"adamw_torch", "sgd"}, "update rule")
      .flag("learning_rate", learning_rate, "the peak")
      .flag("weight_decay", weight_decay, "decoupled; not for biases and norms")
      .flag("adam_beta1", adam_beta1, "decay of the first moment")
      .flag("adam_beta2", adam_beta2, "decay of the second moment")
      .flag("adam_epsilon", adam_epsilon, "added to the root of the second moment")
      .flag("max_grad_norm", max_grad_norm, "gradients are scaled down to this 2-norm; 0: never")
      .choice("lr_scheduler_type", lr_scheduler_type, {"linear", "cosine", "constant", "constant_with_warmup"},
              "schedule of the learning rate")
      .flag("warmup_steps", warmup_steps, "updates of linear warm-up; below 1: a part of all updates")
      .flag("seed", seed, "seed of initial values, dropout and the order of samples")
      .flag("data_seed", data_seed, "seed of the order of samples, if it differs from seed");
  parser.group("precision")
      .flag("bf16", bf16, "compute in bfloat16, keep float32 weights")
      .choice("dtype", dtype, {"float32", "float64"}, "type of weights and computation");
  parser.group("mesh and sharding")
      .flag("mesh", mesh, "axes and sizes, as in data=2,model=2; one may be -1: all remaining ranks")
      .text_or_bare("fsdp", fsdp, "true", "full_shard or shard_grad_op, with auto_wrap, hybrid_shard; true: full_shard")
      .flag("fsdp_config", fsdp_config, "JSON file: fsdp_transformer_layer_cls_to_wrap or fsdp_min_num_params, …")
      .flag("tensor_parallel", tensor_parallel, "axis over which attention heads and MLPs are sharded")
      .flag("expert_parallel", expert_parallel, "axis over which the experts of a mixture and the rows are sharded")
      .flag("dry_run", dry_run, "partition and plan for the mesh, print memory and collectives, do not train")
      .flag("virtual_ranks", virtual_ranks, "run this many ranks as threads of this process (also --num_cores)");
  parser.group("output")
      .flag("output_dir", output_dir, "folder of the trained model and trainer_state.json")
      .flag("overwrite_output_dir", overwrite_output_dir, "write into output_dir even if it holds a run")
      .choice("save_strategy", save_strategy, {"no", "steps", "epoch"}, "when to write output_dir/checkpoint-N")
      .flag("save_steps", save_steps, "updates between two checkpoints")
      .flag("save_total_limit", save_total_limit, "keep only this many newest checkpoints [all]")
      .flag("save_only_model", save_only_model, "checkpoints without optimizer state, which cannot be resumed")
      .choice("eval_strategy", eval_strategy, {"no", "steps", "epoch"}, "when to evaluate during the training")
      .flag("eval_steps", eval_steps, "updates between two evaluations [logging_steps]")
      .flag("load_best_model_at_end", load_best_model_at_end, "end with the model of the best checkpoint")
      .choice("metric_for_best_model", metric_for_best_model, metric_choices(program),
              "by which checkpoints are compared")
      .flag("greater_is_better", greater_is_better, "the best checkpoint has the greatest metric [true for accuracy]")
      .text_or_bare("resume_from_checkpoint", resume_from_checkpoint, "true",
                    "a checkpoint; true: the newest of output_dir")
      .flag("logging_steps", logging_steps, "updates between two entries of the log")
      .flag("logging_first_step", logging_first_step, "log the first update too")
      .flag("do_train", do_train, "train")
      .flag("do_eval", do_eval, "evaluate on the held-out text at the end")
      .flag("disable_tqdm", disable_tqdm, "no progress bar, only the log's lines")
      .flag("logging_dir", logging_dir, "folder of log.jsonl: each entry of the log as a line of JSON")
      .flag("tpu_metrics_debug", tpu_metrics_debug, "print the metrics with each entry of the log")
      .flag("overwrite_cache", overwrite_cache, "no effect: nothing is cached");
  if (program != TrainingProgram::kClm) return;
  parser.flag("sample_prompt", sample_prompt, "beginning of the sample that is printed at the end")
      .flag("sample_tokens", sample_tokens, "tokens to sample at the end; 0: none");
}

namespace {

void require_positive(const char* name, std::int64_t value) {
  require(value >= 1, "--{} must be at least 1, got {}", name, value);
}
void require_not_negative(const char* name, double value) {
  require(value >= 0 && std::isfinite(value), "--{} must not be negative, got {}", name, value);
}
void require_beta(const char* name, double value) {
  require(value >= 0 && value < 1, "--{} must be in [0, 1), got {}", name, value);
}

// Checks the mesh and the axes that other flags name, independently of the number of ranks.
void check_mesh_flags(const TrainingArguments& arguments) {
  if (arguments.mesh.empty()) return;
  std::vector<std::string> names;
  try {
    for (const auto& axis : mesh_axes(arguments.mesh)) names.push_back(axis.name);
  } catch (Error& error) {
    throw error.prefix("--mesh: ");
  }
  const auto has = [&](std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  for (const auto& [flag, axis] : std::initializer_list<std::pair<const char*, const std::string&>>{
           {"--tensor_parallel", arguments.tensor_parallel},
           {"--expert_parallel", arguments.expert_parallel},
           {"--spatial_sharding", arguments.spatial_sharding}})
    require(axis.empty() || has(axis), "{}: --mesh {} has no axis \"{}\"{}", flag, arguments.mesh, axis,
            [&, name = axis] { return suggest_name(name, names); });
  require(!parse_fsdp_mode(arguments.fsdp).enabled || has("fsdp") || has("data"),
          "--fsdp shards over an axis called fsdp or data, and --mesh {} has neither", arguments.mesh);
}

void check_loader_flags(const TrainingArguments& arguments) {
  constexpr std::int64_t kMost = 1024;
  const std::int64_t workers = arguments.dataloader_num_workers;
  const std::int64_t factor = arguments.dataloader_prefetch_factor.value_or(1);
  require(workers >= 0 && workers <= kMost, "--dataloader_num_workers must be from 0 to {}, got {}", kMost, workers);
  require(factor >= 1 && factor <= kMost, "--dataloader_prefetch_factor must be from 1 to {}, got {}", kMost, factor);
  require(workers > 0 || !arguments.dataloader_prefetch_factor,
          "--dataloader_prefetch_factor has no effect without --dataloader_num_workers");
}

// As in Hugging Face's Trainer: a checkpoint exists for every evaluation that counts.
void check_best_model_flags(const TrainingArguments& arguments) {
  if (!arguments.compares_checkpoints()) return;
  const char* flag = arguments.load_best_model_at_end ? "load_best_model_at_end" : "metric_for_best_model";
  require(!arguments.output_dir.empty(), "--{} needs --output_dir", flag);
  require(arguments.eval_strategy != "no" && arguments.eval_strategy == arguments.save_strategy,
          "--{} needs equal strategies to evaluate and to save, got --eval_strategy {} and --save_strategy {}", flag,
          arguments.eval_strategy, arguments.save_strategy);
  require(arguments.eval_strategy != "steps" || arguments.save_steps % arguments.evaluation_interval() == 0,
          "--{} needs --save_steps to be a multiple of --eval_steps, got {} and {}", flag, arguments.save_steps,
          arguments.evaluation_interval());
}

}  // namespace

std::vector<std::pair<std::string, std::string>> TrainingArguments::values() const {
  TrainingArguments copy = *this;
  ArgumentParser parser("", "");
  copy.add_flags(parser);
  return parser.values();
}

void TrainingArguments::check() const {
  check_program_flags(*this);
  require(
      !(per_device_train_batch_size && global_batch_size),
      "--per_device_train_batch_size and --global_batch_size exclude each other: the first counts per data shard, the "
      "second over all");
  require(!(bf16 && dtype == "float64"), "--bf16 and --dtype float64 exclude each other");
  require(fsdp_config.empty() || !fsdp.empty(), "--fsdp_config without --fsdp has no effect; add --fsdp full_shard");
  require_positive("per_device_train_batch_size", per_device_train_batch_size.value_or(1));
  require_positive("global_batch_size", global_batch_size.value_or(1));
  require_positive("per_device_eval_batch_size", per_device_eval_batch_size.value_or(1));
  require_positive("max_eval_samples", max_eval_samples.value_or(1));
  require_positive("gradient_accumulation_steps", gradient_accumulation_steps);
  check_loader_flags(*this);
  require_positive("logging_steps", logging_steps);
  require_positive("save_steps", save_steps);
  require_positive("save_total_limit", save_total_limit.value_or(1));
  require(resume_from_checkpoint != "true" || !output_dir.empty(),
          "--resume_from_checkpoint needs --output_dir, or the folder of a checkpoint");
  require(max_steps == -1 || max_steps >= 1, "--max_steps must be at least 1, or -1, got {}", max_steps);
  require(num_train_epochs > 0 && std::isfinite(num_train_epochs), "--num_train_epochs must be above 0, got {}",
          num_train_epochs);
  require_not_negative("learning_rate", learning_rate);
  require_not_negative("weight_decay", weight_decay);
  require_not_negative("adam_epsilon", adam_epsilon);
  require_not_negative("max_grad_norm", max_grad_norm);
  require_not_negative("warmup_steps", warmup_steps);
  require_not_negative("virtual_ranks", static_cast<double>(virtual_ranks));
  require_not_negative("sample_tokens", static_cast<double>(sample_tokens));
  require_beta("adam_beta1", adam_beta1);
  require_beta("adam_beta2", adam_beta2);
  require_positive("eval_steps", eval_steps.value_or(1));
  (void)parse_fsdp_mode(fsdp);
  check_best_model_flags(*this);
  check_mesh_flags(*this);
}

namespace {
constexpr std::int64_t kRowsPerShard = 8;
}

std::string TrainingArguments::config_file() const {
  const std::string& name = config_name.empty() ? model_name_or_path : config_name;
  const bool is_folder = config_name.empty() || std::filesystem::is_directory(name);
  return is_folder ? name + "/config.json" : name;
}

std::int64_t TrainingArguments::micro_batch_rows(std::int64_t data_shards) const {
  if (global_batch_size) return *global_batch_size;
  return per_device_train_batch_size.value_or(kRowsPerShard) * data_shards;
}

std::int64_t TrainingArguments::eval_batch_rows(std::int64_t data_shards) const {
  return per_device_eval_batch_size.value_or(kRowsPerShard) * data_shards;
}

std::int64_t TrainingArguments::total_steps(std::int64_t micro_batches_per_epoch) const {
  if (max_steps > 0) return max_steps;
  // As in Hugging Face, an update needs all its micro-batches, but an epoch performs at least one update.
  const std::int64_t per_epoch = std::max<std::int64_t>(1, micro_batches_per_epoch / gradient_accumulation_steps);
  return static_cast<std::int64_t>(std::ceil(num_train_epochs * static_cast<double>(per_epoch)));
}

std::int64_t TrainingArguments::warmup_count(std::int64_t total_steps) const {
  const double count = warmup_steps < 1 ? std::ceil(warmup_steps * static_cast<double>(total_steps)) : warmup_steps;
  return static_cast<std::int64_t>(count);
}

std::optional<TrainingArguments> parse_training_arguments(int argc, const char* const* argv, const std::string& program,
                                                          const std::string& about, TrainingArguments standard) {
  TrainingArguments arguments = std::move(standard);
  ArgumentParser parser(program, about);
  arguments.add_flags(parser);
  if (!parser.parse(argc, argv)) {
    std::fputs(parser.help().c_str(), stdout);
    return std::nullopt;
  }
  // Python writes True and False.
  if (arguments.resume_from_checkpoint == "True") arguments.resume_from_checkpoint = "true";
  if (arguments.resume_from_checkpoint == "False" || arguments.resume_from_checkpoint == "false")
    arguments.resume_from_checkpoint.clear();
  arguments.check();
  return arguments;
}

}  // namespace tessera::trainer
