// SPDX-License-Identifier: Apache-2.0
// The arguments of a training run: Hugging Face's names and defaults, with additional arguments for meshes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/argument_parser.h"
#include "tessera/fsdp/options.h"

namespace tessera::trainer {

/// A run has at most this many updates.
inline constexpr double kMostUpdates = 1e15;

/// The training programs. Each has its own flags. kModel is a Trainer with a model and data sets.
enum class TrainingProgram { kClm, kMlm, kClassification, kImages, kModel };

/// The defaults are Hugging Face's.
struct TrainingArguments {
  TrainingProgram program = TrainingProgram::kClm;
  // Model and data.
  std::string model_name_or_path;   // a folder with config.json and weights; "": initial values
  std::string config_name;          // a config.json; "": that of model_name_or_path
  std::string model_type = "gpt2";  // for a configuration without a model_type
  std::string config_overrides;     // n_embd=10,resid_pdrop=0.2: replaces values of the configuration
  std::string tokenizer_name = "bytes";
  bool tokenizer_is_given = false;  // by a flag: without one, the tokenizer of the model's folder is used
  std::string train_file;
  std::string validation_file;
  std::string text_column_name;  // of the texts in JSON Lines and CSV; "": text, or the first column if there is none
  std::string dataset_name;
  std::string dataset_config_name;
  std::string cache_dir;  // data sets and models are searched here; run_clm also keeps tokens of texts here
  double validation_split_percentage = 5;
  std::int64_t block_size = 0;                // 0: the positions of the model, at most 1024
  std::optional<double> neftune_noise_alpha;  // of add_embedding_noise(), in training; nullopt: no noise

  // Masked language models and classification.
  std::optional<std::int64_t>
      max_seq_length;              // tokens in a sample; nullopt: the model's positions, at most 1024 (MLM) or 128
  bool pad_to_max_length = false;  // false: pad to the longest sample of a batch
  std::string length_buckets;      // 64,128: the lengths of batches, instead of that of the longest sample
  bool line_by_line = false;       // each line of the text is a sample
  double mlm_probability = 0.15;
  std::string task_name;    // a task of GLUE: the layout of its files, its labels and its metrics
  std::string data_dir;     // the folder of its files; "": searched in cache_dir
  bool do_predict = false;  // write the predictions for test_file at the end
  std::string test_file;    // texts without labels
  std::optional<std::int64_t> max_predict_samples;  // the first ones of test_file; nullopt: all

  // Images.
  std::string model = "resnet50";  // resnet18, resnet50, tiny, or a config.json of an image classifier
  std::string datadir;             // a folder with train and val
  bool fake_data = false;          // generated images, or in run_clm random tokens; no files
  std::int64_t fake_data_samples = 1280;
  std::int64_t fake_data_classes = 1000;
  std::int64_t image_size = 224;
  std::string spatial_sharding;  // axis over which image rows are sharded
  bool augment = true;           // random crops, scaled and randomly mirrored
  double momentum = 0;           // of SGD

  // Batches and length.
  std::optional<std::int64_t> per_device_train_batch_size;  // per data shard
  bool auto_find_batch_size = false;                        // lower it until the plan fits into the memory of a rank
  std::optional<std::int64_t> global_batch_size;            // of one micro-batch over all data shards
  std::optional<std::int64_t> per_device_eval_batch_size;
  std::optional<std::int64_t> max_train_samples;  // nullopt: all
  std::optional<std::int64_t> max_eval_samples;   // blocks of held-out text; nullopt: all
  std::int64_t gradient_accumulation_steps = 1;
  std::int64_t max_steps = -1;
  double num_train_epochs = 3;
  bool dataloader_drop_last = false;
  std::int64_t dataloader_num_workers = 0;                 // threads that make batches
  std::optional<std::int64_t> dataloader_prefetch_factor;  // batches of each thread in advance; nullopt: 2
  std::string train_sampling_strategy = "random";          // random, sequential, group_by_length
  bool group_by_length = false;                            // the older name of train_sampling_strategy=group_by_length

  // Optimizer.
  std::string optim = "adamw_torch";
  std::string optim_args;  // momentum=0.9,nesterov=true
  bool adafactor = false;  // the older name of --optim adafactor
  double learning_rate = 5e-5;
  double weight_decay = 0;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double max_grad_norm = 1.0;
  double label_smoothing_factor = 0;  // of the loss in training and evaluation
  std::string lr_scheduler_type = "linear";
  std::string lr_scheduler_kwargs;  // {"num_cycles": 2}
  double warmup_steps = 0;          // below 1: a fraction of all steps
  double warmup_ratio = 0;          // of all steps, if warmup_steps is 0
  std::int64_t seed = 42;
  std::optional<std::int64_t> data_seed;
  bool full_determinism = false;  // the same bits for every mesh of data and fsdp axes

  // Precision.
  bool bf16 = false;
  bool fp16 = false;
  std::string dtype = "float32";
  bool gradient_checkpointing = false;  // compute the values of a block again in the backward pass
  std::string max_memory_per_rank;      // such as 2GB: recompute as little as this limit allows

  // Mesh and sharding.
  std::string mesh;
  std::string fsdp;
  std::string fsdp_config;  // a JSON or YAML file, or the text of a JSON object
  std::string fsdp_transformer_layer_cls_to_wrap;
  std::int64_t fsdp_min_num_params = 0;
  std::string accelerate_config;  // --config_file: of Accelerate, in YAML
  bool deferred_init = true;      // always true: a parameter gets its values at its first use, as shards
  std::string tensor_parallel;
  std::string expert_parallel;
  std::string auto_shard;  // a machine model: search for the fastest mesh and shardings; "": no search
  bool dry_run = false;
  std::int64_t virtual_ranks = 0;

  // Output.
  std::string output_dir;
  bool overwrite_output_dir = false;
  std::string save_strategy = "steps";                  // no, steps, epoch
  double save_steps = 500;                              // updates between two checkpoints; below 1: a fraction of all
  std::optional<std::int64_t> save_total_limit;         // nullopt: all checkpoints stay
  bool save_only_model = false;                         // no optimizer and run state, so a run cannot be resumed
  std::string eval_strategy = "no";                     // no, steps, epoch: evaluations during the training
  double eval_delay = 0;                                // updates, or epochs, before the first evaluation
  bool eval_on_start = false;                           // evaluate before the first update
  std::optional<double> eval_steps;                     // like save_steps, for evaluations; nullopt: logging_steps
  bool load_best_model_at_end = false;                  // the model of the checkpoint with the best metric
  std::string metric_for_best_model;                    // loss, perplexity, bits_per_byte, accuracy or one of GLUE
  bool greater_is_better = false;                       // the best checkpoint has the greatest metric
  bool greater_is_better_is_given = false;              // by a flag; otherwise, the metric determines the value
  std::optional<std::int64_t> early_stopping_patience;  // evaluations without progress after which training ends
  double early_stopping_threshold = 0;                  // the least improvement that counts as progress
  std::string resume_from_checkpoint;                   // a folder, or "true": the newest one in output_dir
  bool ignore_data_skip = false;                        // a resumed run begins with the first sample again
  std::string logging_strategy = "steps";               // no, steps, epoch
  double logging_steps = 500;  // updates between two entries of the log; below 1: a fraction of all
  bool logging_first_step = false;
  std::string logging_format = "short";  // of the log's lines: short, or mmf with the fields of mmf
  bool do_train = true;
  bool do_eval = true;
  bool disable_tqdm = false;
  std::string logging_dir;  // of log.jsonl: each entry of the log as a line
  std::string report_to;    // jsonl csv tensorboard, all or none; "": jsonl if there is a logging_dir
  std::string run_name;     // the folder of TensorBoard's files in logging_dir, and the experiment in mmf's lines
  std::string debug;        // tpu_metrics_debug
  bool include_num_input_tokens_seen = false;  // in the log
  bool tpu_metrics_debug = false;              // print the metrics with each entry of the log
  bool overwrite_cache = false;                // run_clm: replace the tokens in cache_dir; no effect elsewhere
  std::string sample_prompt;
  std::int64_t sample_tokens = 200;

  /// Lines for the user about flags without effect.
  std::vector<std::string> notes;
  bool has_overrides = false;  // the command line has keys of mmf, so the run prints its configuration, as mmf does
  std::int64_t expected_ranks = 0;  // num_processes of --config_file; 0: any number
  std::string program_name;         // of the program that read the command line; "": no program did
  /// The flags that a configuration file gave, with its keys: mesh, `tp_size 2 in f.json`.
  std::map<std::string, std::string> given_by_file;
  /// The flags whose values the program has determined from other flags, such as the files of --task_name.
  std::vector<std::string> derived_flags;

  /// Binds the fields that `program` uses to their flags.
  void add_flags(ArgumentParser& parser);
  /// Errors: values out of range, flags that exclude each other, missing text. The message names the flags.
  void check() const;
  /// Name and value of every flag, as text.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> values() const;
  /// The same as training_args.json, a file with which the program starts the run again. A flag without a value is
  /// null, as are the derived flags. The file neither continues the run nor replaces its output.
  [[nodiscard]] JsonObject json() const;
  /// The same as a text for the user: flags with a value in groups, each with the key that mmf has for it.
  [[nodiscard]] std::string configuration() const;

  /// Names the origin of a flag for messages: `--mesh`, or the keys of a file.
  [[nodiscard]] std::string what_gave(const std::string& flag) const;
  /// The path of the configuration.
  [[nodiscard]] std::string config_file() const;
  /// The mesh, or its default: `fsdp=-1` with fsdp, otherwise `data=-1`.
  [[nodiscard]] std::string mesh_or_default() const;
  /// The file of --fsdp_config; "" if it is a JSON text.
  [[nodiscard]] std::string fsdp_config_file() const;
  /// The updates between two evaluations with --eval_strategy steps; below 1: a fraction of all updates.
  [[nodiscard]] double evaluation_interval() const { return eval_steps.value_or(logging_steps); }
  /// Whether the checkpoints are compared by a metric.
  [[nodiscard]] bool compares_checkpoints() const { return load_best_model_at_end || !metric_for_best_model.empty(); }
  /// Whether --report_to, or its default, contains `writer`.
  [[nodiscard]] bool reports_to(std::string_view writer) const;
  /// Whether metrics are printed with each entry of the log.
  [[nodiscard]] bool prints_metrics() const;
  /// The rows of a micro-batch over all data shards.
  [[nodiscard]] std::int64_t micro_batch_rows(std::int64_t data_shards) const;
  [[nodiscard]] std::int64_t eval_batch_rows(std::int64_t data_shards) const;
  /// The updates of the complete run: max_steps, or those of num_train_epochs with `micro_batches_per_epoch`. No update has
  /// micro-batches of two epochs, so the last update of an epoch may have fewer than the others.
  [[nodiscard]] std::int64_t total_steps(std::int64_t micro_batches_per_epoch) const;
  /// The epochs that the complete run begins, as in the trainer_state.json of Hugging Face: num_train_epochs rounded up, or
  /// the epochs that max_steps needs.
  [[nodiscard]] std::int64_t total_epochs(std::int64_t micro_batches_per_epoch) const;
  /// warmup_steps as a number of updates.
  [[nodiscard]] std::int64_t warmup_count(std::int64_t total_steps) const;
};

/// Replaces older flags (--adafactor, --group_by_length) by the current ones, and applies --config_file. Flags that
/// were given on the command line override the file. Errors: those of the file; flags that contradict each other.
void settle_arguments(TrainingArguments& arguments, const ArgumentParser& parser);

/// Reads a command line. `program` and `about` are for the help, and `standard` has the defaults. If the command line
/// contains --help, prints the help and returns nullopt. UsageErrors: those of ArgumentParser and of check().
/// FileErrors: a file with flags, or --config_file, cannot be read or is wrong.
std::optional<TrainingArguments> parse_training_arguments(int argc, const char* const* argv, const std::string& program,
                                                          const std::string& about, TrainingArguments standard = {});

/// Returns the keys and values of --config_overrides, `n_embd=10,resid_pdrop=0.2`. Error if an entry is no `key=value`.
std::vector<std::pair<std::string, std::string>> config_overrides_of(const std::string& text);

/// The options of --fsdp, such as `--fsdp "full_shard auto_wrap"`.
struct FsdpMode {
  bool enabled = false;
  bool reshard_after_forward = true;  // full_shard; false is shard_grad_op
  bool hybrid = false;                // replicated over a second axis
  bool offload = false;
};
/// Reads the options of --fsdp; "true" is full_shard. Errors: an unknown option (with the nearest one), two options
/// that exclude each other.
FsdpMode parse_fsdp_mode(const std::string& text);

/// A key of a configuration, or a flag, as the user wrote it. For messages.
struct GivenKey {
  std::string words;     // dp_shard_size 4, or --fsdp_min_num_params
  std::string origin{};  // of a key: f.json, or --fsdp_config
  /// `dp_shard_size 4 in f.json`
  [[nodiscard]] std::string str() const;
  /// `f.json: dp_shard_size 4 and fsdp_size 2`
  [[nodiscard]] std::string with(const GivenKey& other) const;
};

/// The content of --fsdp_config. Keys may have Hugging Face's prefix `fsdp_`. Their order has no effect.
struct FsdpConfig {
  std::vector<std::string> transformer_layer_cls_to_wrap;    // empty: the repeated block
  std::int64_t min_num_params = 0;                           // > 0: the size-based policy
  std::string auto_wrap_policy;                              // "": the two fields above determine it
  bool wraps = true;                                         // false: the model is one unit (NO_WRAP)
  std::vector<std::string> ignored_modules;                  // regular expressions of the names of modules
  std::optional<ReshardAfterForward> reshard_after_forward;  // overrides --fsdp
  std::optional<bool> hybrid;                                // replicated over a second axis
  bool disable_reshard_on_root = true;
  bool activation_checkpointing = false;                   // also xla_fsdp_grad_ckpt
  std::vector<std::pair<std::string, std::int64_t>> axes;  // of the mesh, in this order: data, fsdp, model
  std::string compute_dtype;                               // "": as stored; float32, bfloat16, float16
  std::string reduce_dtype;                                // the type in which gradients are reduced; the same values
  std::string buffer_dtype;                                // "": as stored; float32, bfloat16, float16
  bool shard_param_on_dim_0 = false;                       // as in FsdpOptions
  std::vector<std::vector<std::int64_t>> sharding_groups;  // as in FsdpOptions
  FsdpDebugOptions debug{};                                // as in FsdpOptions
  /// The origin of each field that was given, by the name of the field.
  std::map<std::string, GivenKey, std::less<>> given;
  /// One line for the user, with the reason, for each key without effect.
  std::vector<std::string> notes;

  /// Names the origin of a field for messages: `compute_dtype bfloat16 in f.json`.
  [[nodiscard]] std::string what_gave(std::string_view field) const;

  /// Errors: an unknown key (with the nearest one), keys that contradict each other, a value of another type.
  static FsdpConfig from_json(const JsonObject& json);
  /// Returns the configuration of --fsdp_config, --config_file, --fsdp_min_num_params and
  /// --fsdp_transformer_layer_cls_to_wrap. FileErrors: a file that cannot be read, or is wrong.
  static FsdpConfig of(const TrainingArguments& arguments);
};

}  // namespace tessera::trainer
