// SPDX-License-Identifier: Apache-2.0
// Checks of the arguments, independently of files and ranks.
#include <algorithm>
#include <cmath>

#include "flags/fsdp/check_fsdp.h"
#include "program_flags.h"
#include "tessera/base/error.h"
#include "tessera/base/memory_limit.h"
#include "tessera/base/text.h"
#include "tessera/optim/factory.h"
#include "tessera/optim/schedule.h"
#include "tessera/sharding/machine.h"
#include "tessera/sharding/mesh_text.h"
#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

namespace {

void require_positive(const char* name, std::int64_t value) {
  require(value >= 1, "--{} must be at least 1, got {}", name, value);
}
void require_updates(const char* name, double value) {
  const bool is_count = value >= 1 && value <= kMostUpdates && value == std::floor(value);
  require(is_count || (value > 0 && value < 1),
          "--{} must be a whole number of updates, or a fraction of all updates above 0 and below 1, got {}", name,
          value);
}
void require_not_negative(const char* name, double value) {
  require(std::isfinite(value), "--{} must be finite, got {}", name, value);
  require(value >= 0, "--{} must not be negative, got {}", name, value);
}
void require_fraction(const char* name, double value) {
  require(value >= 0 && value < 1, "--{} must be in [0, 1), got {}", name, value);
}

void check_optimizer_flags(const TrainingArguments& arguments) {
  check_flag("--optim: ", [&] { optim::check_optimizer(arguments.optim, ""); });
  check_arguments_in("optim_args", [&] { optim::check_optimizer(arguments.optim, arguments.optim_args); });
  const optim::ScheduleType type = optim::schedule_from_name(arguments.lr_scheduler_type);
  check_arguments_in("lr_scheduler_kwargs",
                     [&] { (void)optim::ScheduleArguments::parse(type, arguments.lr_scheduler_kwargs); });
  require(type != optim::ScheduleType::kReduceOnPlateau || arguments.eval_strategy != "no",
          "--lr_scheduler_type reduce_lr_on_plateau needs evaluations: --eval_strategy steps or epoch");
}

void check_memory_budget(const TrainingArguments& arguments) {
  if (arguments.max_memory_per_rank.empty()) return;
  (void)parse_bytes(arguments.max_memory_per_rank, "--max_memory_per_rank");
  require(!arguments.gradient_checkpointing,
          "--max_memory_per_rank chooses what to recompute, so it excludes --gradient_checkpointing");
  require(arguments.program != TrainingProgram::kModel,
          "--max_memory_per_rank works only in the training programs, which make the model themselves; a Trainer is "
          "given a model");
}

// --auto_find_batch_size plans several batches, each with a model of its own.
void check_batch_search(const TrainingArguments& arguments) {
  if (!arguments.auto_find_batch_size) return;
  require(arguments.program != TrainingProgram::kModel,
          "--auto_find_batch_size works only in the training programs, which make the model themselves; a Trainer is "
          "given a model");
  require(!arguments.global_batch_size,
          "--auto_find_batch_size lowers --per_device_train_batch_size, so it excludes --global_batch_size {}",
          arguments.global_batch_size.value_or(0));
  require(arguments.auto_shard.empty(),
          "--auto_find_batch_size and --auto_shard exclude each other: a layout is chosen for a given batch");
}

// `--mesh data=2`, or the keys of a file that gave the mesh.
std::string given_words(const TrainingArguments& arguments, const std::string& flag, const std::string& value) {
  const std::string words = arguments.what_gave(flag);
  return arguments.given_by_file.contains(flag) ? words : fmt::format("{} {}", words, value);
}

// `--mesh data=2`, `the mesh data=2 of dp_replicate_size 2 in f.json`, or the default mesh.
std::string mesh_words(const TrainingArguments& arguments) {
  if (arguments.mesh.empty()) return "the default mesh " + arguments.mesh_or_default();
  if (!arguments.given_by_file.contains("mesh")) return "--mesh " + arguments.mesh;
  return fmt::format("the mesh {} of {}", arguments.mesh, arguments.what_gave("mesh"));
}

// --auto_shard chooses what the other flags of the mesh specify.
void check_auto_shard(const TrainingArguments& arguments) {
  if (arguments.auto_shard.empty()) return;
  require(arguments.program == TrainingProgram::kClm, "--auto_shard: only run_clm searches for a layout");
  check_flag("--auto_shard: ", [&] { MachineModel::check_name(arguments.auto_shard); });
  for (const auto& [flag, value] : std::initializer_list<std::pair<const char*, const std::string&>>{
           {"mesh", arguments.mesh},
           {"fsdp", arguments.fsdp},
           {"fsdp_config", arguments.fsdp_config},
           {"tensor_parallel", arguments.tensor_parallel},
           {"expert_parallel", arguments.expert_parallel},
           {"max_memory_per_rank", arguments.max_memory_per_rank}})
    require(value.empty(), "--auto_shard chooses the mesh and the sharding, so it excludes {}",
            [&, name = flag] { return given_words(arguments, name, value); });
  require(!arguments.dry_run,
          "--auto_shard plans for the ranks of a run; `tessera plan` plans for any number of devices");
}

// Checks the mesh and the axes that other flags name, independently of the number of ranks.
void check_mesh_flags(const TrainingArguments& arguments) {
  check_auto_shard(arguments);
  check_memory_budget(arguments);
  check_batch_search(arguments);
  const std::string mesh = arguments.mesh_or_default();
  std::vector<std::string> names;
  check_flag(fmt::format("{}: ", arguments.what_gave("mesh")).c_str(), [&] {
    for (const auto& axis : mesh_axes(mesh)) names.push_back(axis.name);
  });
  const auto has = [&](std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  for (const auto& [flag, axis] : std::initializer_list<std::pair<const char*, const std::string&>>{
           {"--tensor_parallel", arguments.tensor_parallel},
           {"--expert_parallel", arguments.expert_parallel},
           {"--spatial_sharding", arguments.spatial_sharding}})
    require(
        axis.empty() || has(axis), "{}: {} has no axis \"{}\"{}", flag, [&] { return mesh_words(arguments); }, axis,
        [&, name = axis] {
          return arguments.mesh.empty()
                     ? fmt::format("; give a mesh with this axis, such as --mesh {},{}=2", mesh, name)
                     : suggest_name(name, names);
        });
  require(
      !parse_fsdp_mode(arguments.fsdp).enabled || has("fsdp") || has("data"),
      "{} shards over an axis called fsdp or data, and {} has neither{}", [&] { return arguments.what_gave("fsdp"); },
      [&] { return mesh_words(arguments); },
      arguments.given_by_file.contains("mesh") ? "; give dp_shard_size, too" : "");
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
  require(!arguments.early_stopping_patience || arguments.eval_strategy != "no",
          "--early_stopping_patience needs evaluations: --eval_strategy steps or epoch");
  require(arguments.save_strategy != "best" || arguments.eval_strategy != "no",
          "--save_strategy best needs evaluations: --eval_strategy steps or epoch");
  if (!arguments.compares_checkpoints() && arguments.save_strategy != "best") return;
  // These compare models of which no checkpoint is needed.
  if (arguments.early_stopping_patience && !arguments.load_best_model_at_end && arguments.save_strategy != "best")
    return;
  const char* flag = arguments.load_best_model_at_end    ? "load_best_model_at_end"
                     : arguments.save_strategy == "best" ? "save_strategy best"
                                                         : "metric_for_best_model";
  require(!arguments.output_dir.empty(), "--{} needs --output_dir", flag);
  if (arguments.save_strategy == "best") return;
  require(arguments.eval_strategy != "no" && arguments.eval_strategy == arguments.save_strategy,
          "--{} needs equal --eval_strategy and --save_strategy, got {} and {}", flag, arguments.eval_strategy,
          arguments.save_strategy);
  if (arguments.save_steps < 1 || arguments.evaluation_interval() < 1) return;  // Intervals::of() checks these
  require(arguments.eval_strategy != "steps" || std::fmod(arguments.save_steps, arguments.evaluation_interval()) == 0,
          "--{} needs --save_steps to be a multiple of --eval_steps, got {} and {}", flag, arguments.save_steps,
          arguments.evaluation_interval());
}

void check_numbers(const TrainingArguments& a) {
  require_positive("per_device_train_batch_size", a.per_device_train_batch_size.value_or(1));
  require_positive("global_batch_size", a.global_batch_size.value_or(1));
  require_positive("per_device_eval_batch_size", a.per_device_eval_batch_size.value_or(1));
  require_positive("max_train_samples", a.max_train_samples.value_or(1));
  require_positive("max_eval_samples", a.max_eval_samples.value_or(1));
  require_positive("max_predict_samples", a.max_predict_samples.value_or(1));
  require_positive("gradient_accumulation_steps", a.gradient_accumulation_steps);
  require_updates("logging_steps", a.logging_steps);
  require_updates("save_steps", a.save_steps);
  require_positive("save_total_limit", a.save_total_limit.value_or(1));
  require_updates("eval_steps", a.eval_steps.value_or(1));
  require_positive("early_stopping_patience", a.early_stopping_patience.value_or(1));
  require(a.max_steps == -1 || a.max_steps >= 1, "--max_steps must be at least 1, or -1, got {}", a.max_steps);
  require(a.num_train_epochs > 0 && a.num_train_epochs <= kMostUpdates,
          "--num_train_epochs must be above 0 and at most {:g}, got {:g}", kMostUpdates, a.num_train_epochs);
  require_not_negative("learning_rate", a.learning_rate);
  require_not_negative("weight_decay", a.weight_decay);
  require_not_negative("adam_epsilon", a.adam_epsilon);
  require_not_negative("max_grad_norm", a.max_grad_norm);
  require_not_negative("warmup_steps", a.warmup_steps);
  require(a.warmup_ratio >= 0 && a.warmup_ratio <= 1, "--warmup_ratio must be in [0, 1], got {}", a.warmup_ratio);
  require_not_negative("eval_delay", a.eval_delay);
  require_not_negative("early_stopping_threshold", a.early_stopping_threshold);
  require_not_negative("fsdp_min_num_params", static_cast<double>(a.fsdp_min_num_params));
  require_not_negative("virtual_ranks", static_cast<double>(a.virtual_ranks));
  require_not_negative("sample_tokens", static_cast<double>(a.sample_tokens));
  require_fraction("adam_beta1", a.adam_beta1);
  require_fraction("adam_beta2", a.adam_beta2);
  require_fraction("label_smoothing_factor", a.label_smoothing_factor);
}

void check_words(const char* flag, const std::string& text, const std::vector<std::string>& known,
                 const char* advice = "") {
  for (const std::string& word : split(text, ' '))
    require(
        word.empty() || std::find(known.begin(), known.end(), word) != known.end(),
        "--{} {}: there is no such value{}{}", flag, word, [&] { return suggest_name(word, known); }, advice);
}

// What --report_to and --debug name.
void check_reports(const TrainingArguments& a) {
  check_words("report_to", a.report_to, {"none", "jsonl", "csv", "tensorboard", "all"},
              "; reports are files in --logging_dir, and nothing is uploaded");
  const std::vector<std::string> words = split(a.report_to, ' ');
  const bool writes =
      std::any_of(words.begin(), words.end(), [](const std::string& w) { return w == "csv" || w == "tensorboard"; });
  require(!writes || !a.logging_dir.empty(), "--report_to {} needs --logging_dir, the folder of the files",
          a.report_to);
  require(words.size() < 2 || std::find(words.begin(), words.end(), "none") == words.end(),
          "--report_to: none excludes every other word, got \"{}\"", a.report_to);
  check_words("logging_format", a.logging_format, {"short", "mmf"});
  check_words("debug", a.debug, {"tpu_metrics_debug"},
              "; losses that are not finite end the run, so underflow_overflow is not needed");
}

void check_fsdp_flags(const TrainingArguments& a) {
  const bool is_sharded = parse_fsdp_mode(a.fsdp).enabled;
  const bool may_wrap = is_sharded || !a.auto_shard.empty();  // whose layout may have FSDP
  const auto require_fsdp = [](const char* flag, bool has_effect) {
    require(has_effect, "--{} without --fsdp has no effect; add --fsdp full_shard", flag);
  };
  require_fsdp("fsdp_config", a.fsdp_config.empty() || is_sharded);
  require_fsdp("fsdp_transformer_layer_cls_to_wrap", a.fsdp_transformer_layer_cls_to_wrap.empty() || may_wrap);
  require_fsdp("fsdp_min_num_params", a.fsdp_min_num_params == 0 || may_wrap);
  require(a.fsdp_min_num_params == 0 || a.fsdp_transformer_layer_cls_to_wrap.empty(),
          "--fsdp_min_num_params and --fsdp_transformer_layer_cls_to_wrap exclude each other");
  if (a.fsdp_config.starts_with('{')) (void)FsdpConfig::of(a);  // a file is read later, on every rank
}

}  // namespace

void check_dtype(const std::string& name, const std::string& dtype) {
  require(dtype == "float32" || dtype == "float64",
          "--{} {}: weights are stored in float32 or float64; to compute in {}", name, dtype,
          dtype == "float16" ? "float16, give --fp16" : "bfloat16, give --bf16");
}

void TrainingArguments::check() const {
  check_program_flags(*this);
  require(!(per_device_train_batch_size && global_batch_size),
          "--per_device_train_batch_size and --global_batch_size exclude each other: the first is the number of "
          "samples for each data shard, the second that for all data shards");
  check_dtype("dtype", dtype);
  require(!(bf16 && dtype == "float64"), "--bf16 and --dtype float64 exclude each other");
  require(!(fp16 && dtype == "float64"), "--fp16 and --dtype float64 exclude each other");
  require(!(bf16 && fp16), "--bf16 and --fp16 exclude each other");
  check_fsdp_flags(*this);
  require(deferred_init,
          "--deferred_init false is not supported: each rank always creates only its shards of the parameters, at "
          "their first use; leave out the flag");
  check_numbers(*this);
  check_optimizer_flags(*this);
  check_loader_flags(*this);
  check_reports(*this);
  require(resume_from_checkpoint != "true" || !output_dir.empty(),
          "--resume_from_checkpoint needs --output_dir, or the folder of a checkpoint");
  check_fsdp_config(*this);
  check_best_model_flags(*this);
  check_mesh_flags(*this);
}

}  // namespace tessera::trainer
