// SPDX-License-Identifier: Apache-2.0
#include "tessera/trainer/arguments.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>

#include "flags/exclusions.h"
#include "flags/foreign_flags.h"
#include "flags/noted_flags.h"
#include "program_flags.h"
#include "tessera/base/command_line.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/text.h"
#include "tessera/data/token_file.h"
#include "tessera/optim/factory.h"
#include "tessera/optim/schedule.h"
#include "tessera/trainer/model_names.h"

namespace tessera::trainer {

namespace {

std::vector<std::string> metric_choices(TrainingProgram program) {
  std::vector<std::string> names = {"loss"};
  if (program == TrainingProgram::kClm || program == TrainingProgram::kMlm) names.emplace_back("perplexity");
  if (program == TrainingProgram::kClm) names.emplace_back("bits_per_byte");
  if (program == TrainingProgram::kClassification || program == TrainingProgram::kImages)
    names.emplace_back("accuracy");
  if (program == TrainingProgram::kClassification)
    for (const char* name : {"f1", "matthews_correlation", "pearson", "spearmanr", "combined_score"})
      names.emplace_back(name);
  std::vector<std::string> out = {""};
  for (const std::string& name : names) {
    out.push_back(name);
    out.push_back("eval_" + name);
  }
  return out;
}

}  // namespace

namespace {

// Hugging Face's values of --include_num_input_tokens_seen. Samples of run_clm have no padding.
std::vector<std::string> counted_tokens(TrainingProgram program) {
  return program == TrainingProgram::kClm ? std::vector<std::string>{"all", "non_padding"}
                                          : std::vector<std::string>{"all"};
}

void add_batch_flags(TrainingArguments& a, ArgumentParser& parser) {
  parser.group("batches and length")
      .flag("per_device_train_batch_size", a.per_device_train_batch_size,
            "samples in a micro-batch for each data shard [8]")
      .alias("per_gpu_train_batch_size", "per_device_train_batch_size")
      .flag("auto_find_batch_size", a.auto_find_batch_size,
            "halve per_device_train_batch_size until the plan of a training step fits into the memory of a rank")
      .flag("global_batch_size", a.global_batch_size,
            "samples in a micro-batch over all data shards; the batches are then the same for every mesh")
      .flag("per_device_eval_batch_size", a.per_device_eval_batch_size,
            "samples in a batch for each data shard in evaluation [8]")
      .alias("per_gpu_eval_batch_size", "per_device_eval_batch_size")
      .flag("max_train_samples", a.max_train_samples, "train only on this many samples, the first ones [all]")
      .flag("max_eval_samples", a.max_eval_samples, "evaluate only this many held-out samples [all]")
      .flag("gradient_accumulation_steps", a.gradient_accumulation_steps, "micro-batches in an update")
      .flag("max_steps", a.max_steps, "number of updates; -1: num_train_epochs determines it")
      .flag("num_train_epochs", a.num_train_epochs, "passes over the data")
      .flag("dataloader_drop_last", a.dataloader_drop_last, "drop the last batch of an epoch if it has too few samples")
      .flag("dataloader_num_workers", a.dataloader_num_workers,
            "threads of each rank that make batches in advance; 0: none")
      .flag("dataloader_prefetch_factor", a.dataloader_prefetch_factor, "batches that each thread makes in advance [2]")
      .choice("train_sampling_strategy", a.train_sampling_strategy, {"random", "sequential", "group_by_length"},
              "order of samples; group_by_length: batches of samples of similar length")
      .flag("group_by_length", a.group_by_length, "the same as --train_sampling_strategy group_by_length");
}

void add_optimizer_flags(TrainingArguments& a, ArgumentParser& parser) {
  parser.group("optimizer")
      .flag("optim", a.optim, fmt::format("optimizer: {}", fmt::join(optim::optimizer_names(), ", ")))
      .flag("optim_args", a.optim_args, "further arguments of the optimizer, as in momentum=0.9,nesterov=true")
      .flag("adafactor", a.adafactor, "the same as --optim adafactor")
      .flag("learning_rate", a.learning_rate, "peak of the learning rate")
      .flag("weight_decay", a.weight_decay, "weight decay; biases and norms have none")
      .flag("adam_beta1", a.adam_beta1,
            "beta1 of Lion and of AdamW, Adam, Adamax, NAdam and RAdam, in which it is the decay rate of the first "
            "moment")
      .flag("adam_beta2", a.adam_beta2,
            "beta2 of Lion and of AdamW, Adam, Adamax, NAdam and RAdam, in which it is the decay rate of the second "
            "moment")
      .flag("adam_epsilon", a.adam_epsilon,
            "epsilon of AdamW, Adam, Adamax, NAdam and RAdam, added to the root of the second moment")
      .flag("max_grad_norm", a.max_grad_norm, "gradients with a larger 2-norm are scaled down to this norm; 0: never")
      .flag("label_smoothing_factor", a.label_smoothing_factor,
            "F of label smoothing: the loss of a label is (1 - F) times its negative log probability plus F times the "
            "mean of those of all classes")
      .choice("lr_scheduler_type", a.lr_scheduler_type, optim::schedule_names(), "schedule of the learning rate")
      .flag("lr_scheduler_kwargs", a.lr_scheduler_kwargs, "arguments of the schedule, as in {\"num_cycles\": 2}")
      .flag("warmup_steps", a.warmup_steps,
            "number of updates of the linear warm-up; below 1: a fraction of all updates")
      .flag("warmup_ratio", a.warmup_ratio, "warm-up as a fraction of all updates, if warmup_steps is 0")
      .flag("seed", a.seed, "seed of initial values, dropout and the order of samples")
      .flag("data_seed", a.data_seed, "seed of the order of samples [that of seed]")
      .flag("full_determinism", a.full_determinism,
            "train with the same bits on every mesh of data and fsdp axes over the same ranks");
  parser.group("precision and memory")
      .flag("bf16", a.bf16, "compute in bfloat16, store weights in float32")
      .flag("fp16", a.fp16, "compute in float16 with loss scaling, store weights in float32")
      .flag("dtype", a.dtype, "type of weights and computation: float32 (also auto) or float64")
      .alias("torch_dtype", "dtype")
      .flag("gradient_checkpointing", a.gradient_checkpointing,
            "keep only the inputs of each repeated block for the backward pass, which recomputes the other values")
      .alias("activation_checkpointing", "gradient_checkpointing")
      .flag("max_memory_per_rank", a.max_memory_per_rank,
            "memory of a rank, as in 2GB: the backward pass recomputes values so that the plan of a training step fits "
            "into it");
}

void add_mesh_flags(TrainingArguments& a, ArgumentParser& parser) {
  parser.group("mesh and sharding")
      .flag("mesh", a.mesh,
            "axes and sizes, as in data=2,model=2; one size may be -1, which stands for all remaining ranks; default: "
            "fsdp=-1 with fsdp, else data=-1")
      .words_or_bare("fsdp", a.fsdp, "true",
                     "full_shard, shard_grad_op, hybrid_shard or hybrid_shard_zero2; true means full_shard; auto_wrap "
                     "and offload may follow")
      .flag(
          "fsdp_config", a.fsdp_config,
          "JSON or YAML file, or the text of a JSON object, with options of FSDP such as transformer_layer_cls_to_wrap")
      .flag("fsdp_transformer_layer_cls_to_wrap", a.fsdp_transformer_layer_cls_to_wrap,
            "classes that become units, joined by commas; default: the repeated block")
      .flag("fsdp_min_num_params", a.fsdp_min_num_params, "modules of at least this many parameters become units")
      .flag("config_file", a.accelerate_config,
            "YAML file of accelerate config: precision, FSDP, sizes of the mesh and gradient_accumulation_steps")
      .flag("deferred_init", a.deferred_init,
            "always true: each rank creates only its shards of the parameters, at their first use")
      .flag("tensor_parallel", a.tensor_parallel, "axis over which attention heads and MLPs are sharded")
      .flag("expert_parallel", a.expert_parallel,
            "axis over which the experts of a mixture are sharded; it also shards the rows of batches")
      .words_or_bare("auto_shard", a.auto_shard, "cpu-node",
                     "run_clm only: train with the mesh and the sharding that tessera plan finds for the ranks of the "
                     "job; the value "
                     "is the machine: cpu-node, tpu-v4, uniform or a profile of tessera calibrate")
      .flag("dry_run", a.dry_run,
            "partition and plan a step for the mesh, print its memory, FLOPs and collectives, and do not train")
      .flag("virtual_ranks", a.virtual_ranks, "run this many ranks as threads of this process (also --num_cores)")
      .alias("num_cores", "virtual_ranks");
}

void add_evaluation_flags(TrainingArguments& a, ArgumentParser& parser) {
  parser.group("evaluation and checkpoints")
      .flag("output_dir", a.output_dir, "folder for checkpoints, the trained model and trainer_state.json")
      .flag("overwrite_output_dir", a.overwrite_output_dir,
            "train into output_dir even if it contains a run or a model")
      .choice("save_strategy", a.save_strategy, {"no", "steps", "epoch", "best"},
              "when to write a checkpoint output_dir/checkpoint-N; best: after an evaluation with a better metric than "
              "all before")
      .flag("save_steps", a.save_steps, "updates between two checkpoints; below 1: a fraction of all updates")
      .flag("save_total_limit", a.save_total_limit,
            "keep only this many checkpoints, the newest ones; the best one is never deleted [all]")
      .flag("save_only_model", a.save_only_model,
            "write checkpoints without the state of the optimizer and the run; a run cannot be resumed from them")
      .choice("eval_strategy", a.eval_strategy, {"no", "steps", "epoch"}, "when to evaluate during the training")
      .alias("evaluation_strategy", "eval_strategy")
      .flag("eval_steps", a.eval_steps,
            "updates between two evaluations; below 1: a fraction of all updates [logging_steps]")
      .flag("eval_delay", a.eval_delay, "updates (with --eval_strategy epoch: epochs) before the first evaluation")
      .flag("eval_on_start", a.eval_on_start, "evaluate before the first update of a new run")
      .flag("load_best_model_at_end", a.load_best_model_at_end,
            "after the training, load the model of the checkpoint with the best metric")
      .choice("metric_for_best_model", a.metric_for_best_model, metric_choices(a.program),
              "metric of the held-out data that determines the best checkpoint [loss]")
      .flag("greater_is_better", a.greater_is_better,
            "the best checkpoint is the one with the greatest value of the metric; without this flag, this holds for "
            "accuracy and the metrics of GLUE")
      .flag("early_stopping_patience", a.early_stopping_patience,
            "end the training after this many consecutive evaluations without a better metric [never]")
      .flag("early_stopping_threshold", a.early_stopping_threshold,
            "a metric is better only if it improves on the best one by more than this")
      .text_or_bare("resume_from_checkpoint", a.resume_from_checkpoint, "true",
                    "resume the run of this checkpoint; true: of the newest checkpoint in output_dir that is not "
                    "damaged; false: start a new run")
      .flag("ignore_data_skip", a.ignore_data_skip, "a resumed run begins with the first sample of the data again")
      .flag("do_train", a.do_train, "train")
      .flag("do_eval", a.do_eval, "evaluate on the held-out data at the end");
}

void add_log_flags(TrainingArguments& a, ArgumentParser& parser) {
  parser.group("log")
      .choice("logging_strategy", a.logging_strategy, {"no", "steps", "epoch"}, "when to write a log line")
      .flag("logging_steps", a.logging_steps, "updates between two log lines; below 1: a fraction of all updates")
      .flag("logging_first_step", a.logging_first_step, "also log the first update")
      .choice("logging_format", a.logging_format, {"short", "mmf"},
              "form of log lines: short, or mmf with the fields of mmf")
      .flag("logging_dir", a.logging_dir, "folder of the files of report_to")
      .words_or_bare("report_to", a.report_to, "all",
                     "files in logging_dir: jsonl, csv, tensorboard, several of these words, all or none [jsonl]")
      .flag("run_name", a.run_name,
            "folder of TensorBoard's files in logging_dir, and experiment in the log lines of mmf")
      .flag("include_num_input_tokens_seen", a.include_num_input_tokens_seen,
            "log the number of tokens trained on so far")
      .also_true(counted_tokens(a.program))
      .flag("disable_tqdm", a.disable_tqdm, "no progress bar, only log lines")
      .flag("tpu_metrics_debug", a.tpu_metrics_debug, "print the metrics with each entry of the log")
      .words_or_bare("debug", a.debug, "", "tpu_metrics_debug: the same as --tpu_metrics_debug")
      .flag("overwrite_cache", a.overwrite_cache,
            a.program == TrainingProgram::kClm || a.program == TrainingProgram::kMlm
                ? "tokenize the text again, and replace its tokens in cache_dir"
                : "no effect: this program keeps no tokens");
  if (a.program != TrainingProgram::kClm) return;
  parser.flag("sample_prompt", a.sample_prompt, "beginning of the text that is generated at the end")
      .flag("sample_tokens", a.sample_tokens, "number of tokens to generate at the end; 0: none");
}

}  // namespace

void TrainingArguments::add_flags(ArgumentParser& parser) {
  add_program_flags(*this, parser);
  add_batch_flags(*this, parser);
  add_optimizer_flags(*this, parser);
  add_mesh_flags(*this, parser);
  add_evaluation_flags(*this, parser);
  add_log_flags(*this, parser);
  add_foreign_flags(parser);
  add_exclusions(parser);
}

bool TrainingArguments::reports_to(std::string_view writer) const {
  if (logging_dir.empty()) return false;
  const std::vector<std::string> words = split(report_to.empty() ? "jsonl" : report_to, ' ');
  const auto has = [&](std::string_view word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  return has(writer) || has("all");
}

bool TrainingArguments::prints_metrics() const {
  return tpu_metrics_debug || debug.find("tpu_metrics_debug") != std::string::npos;
}

namespace {

// Calls `read` with a parser that has the flags of the arguments, and their values.
template <class Fn>
auto with_parser(TrainingArguments copy, Fn&& read) {
  ArgumentParser parser(copy.program_name, "");
  copy.add_flags(parser);
  return read(parser);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> TrainingArguments::values() const {
  return with_parser(*this, [](const ArgumentParser& parser) { return parser.values(); });
}

namespace {

// Whether the run is continued from a checkpoint of its own. A checkpoint of another run is where this run begins.
bool continues_itself(const TrainingArguments& arguments) {
  if (arguments.resume_from_checkpoint == "true") return true;
  std::error_code error;
  const auto from = std::filesystem::weakly_canonical(arguments.resume_from_checkpoint, error);
  return from.parent_path() == std::filesystem::weakly_canonical(arguments.output_dir, error);
}

}  // namespace

JsonObject TrainingArguments::json() const {
  JsonObject out = with_parser(*this, [](const ArgumentParser& parser) { return parser.json(); });
  // In a file, the name would count as given: the tokenizer of a model's folder would not be used.
  if (out.has("tokenizer_name") && !tokenizer_is_given && tokenizer_name == TrainingArguments{}.tokenizer_name)
    out.set_null("tokenizer_name");
  for (const std::string& flag : derived_flags) out.set_null(flag);
  if (continues_itself(*this)) out.set("resume_from_checkpoint", "");
  out.set("overwrite_output_dir", false);
  return out;
}

std::string TrainingArguments::configuration() const {
  return with_parser(*this, [](const ArgumentParser& parser) { return parser.configuration(); });
}

namespace {
constexpr std::int64_t kRowsPerShard = 8;
}

std::string TrainingArguments::config_file() const {
  const std::string& name = config_name.empty() ? model_name_or_path : config_name;
  const bool is_folder = config_name.empty() || std::filesystem::is_directory(name);
  return is_folder ? name + "/config.json" : name;
}

std::string TrainingArguments::mesh_or_default() const {
  if (!mesh.empty()) return mesh;
  return parse_fsdp_mode(fsdp).enabled ? "fsdp=-1" : "data=-1";
}

std::string TrainingArguments::what_gave(const std::string& flag) const {
  const auto found = given_by_file.find(flag);
  return found == given_by_file.end() ? "--" + flag : found->second;
}

std::string TrainingArguments::fsdp_config_file() const { return fsdp_config.starts_with('{') ? "" : fsdp_config; }

std::int64_t TrainingArguments::micro_batch_rows(std::int64_t data_shards) const {
  if (global_batch_size) return *global_batch_size;
  return per_device_train_batch_size.value_or(kRowsPerShard) * data_shards;
}

std::int64_t TrainingArguments::eval_batch_rows(std::int64_t data_shards) const {
  return per_device_eval_batch_size.value_or(kRowsPerShard) * data_shards;
}

std::int64_t TrainingArguments::total_steps(std::int64_t micro_batches_per_epoch) const {
  if (max_steps > 0) return max_steps;
  // The last update of an epoch has the remaining micro-batches, as in Hugging Face's Trainer.
  const std::int64_t updates_per_epoch = ceil_div(micro_batches_per_epoch, gradient_accumulation_steps);
  const double updates = std::ceil(num_train_epochs * static_cast<double>(updates_per_epoch));
  require(updates <= kMostUpdates, "--num_train_epochs {:g} gives {:g} updates; a run has at most {:g}",
          num_train_epochs, updates, kMostUpdates);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(updates));
}

std::int64_t TrainingArguments::total_epochs(std::int64_t micro_batches_per_epoch) const {
  if (max_steps <= 0) return static_cast<std::int64_t>(std::ceil(num_train_epochs));  // check() bounds it
  const std::int64_t updates_per_epoch = ceil_div(micro_batches_per_epoch, gradient_accumulation_steps);
  return ceil_div(max_steps, std::max<std::int64_t>(1, updates_per_epoch));
}

std::int64_t TrainingArguments::warmup_count(std::int64_t total_steps) const {
  const double part = warmup_steps == 0 ? warmup_ratio : warmup_steps;
  const bool is_part = warmup_steps < 1;
  const double count = is_part ? std::ceil(part * static_cast<double>(total_steps)) : part;
  return static_cast<std::int64_t>(count);
}

namespace {

// A token file records its tokenizer. `bytes` is the default of the flag, so only here is it known that a user gave it.
void check_file_of_bytes(const std::string& file) {
  if (!data::TokenFile::is_token_file(file)) return;
  const std::string written = reading_file([&] { return data::TokenFile::open(file).info().tokenizer; });
  require(written == "bytes", "--tokenizer_name bytes: {} was written with the tokenizer {}", file, written);
}

// Sets what follows from the flags and their files, and checks the arguments.
void complete_arguments(TrainingArguments& arguments, const ArgumentParser& parser) {
  // Python writes True and False.
  if (arguments.resume_from_checkpoint == "True") arguments.resume_from_checkpoint = "true";
  if (arguments.resume_from_checkpoint == "False" || arguments.resume_from_checkpoint == "false")
    arguments.resume_from_checkpoint.clear();
  arguments.has_overrides = parser.has_overrides();
  // Programs that save nothing by default save in the interval that is given.
  if (parser.was_given("save_steps") && !parser.was_given("save_strategy")) arguments.save_strategy = "steps";
  if (arguments.dtype == "auto") arguments.dtype = "float32";
  check_dtype(parser.given_name("dtype"), arguments.dtype);
  settle_arguments(arguments, parser);
  find_named_models(arguments);
  use_config_of_checkpoint(arguments);
  arguments.greater_is_better_is_given = parser.was_given("greater_is_better");
  arguments.tokenizer_is_given = parser.was_given("tokenizer_name");
  if (!arguments.tokenizer_is_given)
    use_tokenizer_of_model(arguments);
  else if (arguments.tokenizer_name == "bytes")
    check_file_of_bytes(arguments.train_file.empty() ? arguments.validation_file : arguments.train_file);
  if (!arguments.greater_is_better_is_given) arguments.derived_flags.emplace_back("greater_is_better");
  arguments.check();
  note_flags(arguments, parser);
}

}  // namespace

std::optional<TrainingArguments> parse_training_arguments(int argc, const char* const* argv, const std::string& program,
                                                          const std::string& about, TrainingArguments standard) {
  TrainingArguments arguments = std::move(standard);
  arguments.program_name = program;
  ArgumentParser parser(program, about);
  arguments.add_flags(parser);
  if (!parser.parse(argc, argv)) {
    std::fputs(parser.help().c_str(), stdout);
    return std::nullopt;
  }
  read_option("", [&] { complete_arguments(arguments, parser); });
  return arguments;
}

}  // namespace tessera::trainer
