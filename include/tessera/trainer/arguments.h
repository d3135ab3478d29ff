// SPDX-License-Identifier: Apache-2.0
// What a user may say about a training run: Hugging Face's names and defaults, with what a mesh needs beside them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/argument_parser.h"

namespace tessera::trainer {

/// The defaults are Hugging Face's.
struct TrainingArguments {
  // Model and data.
  std::string config_name;
  std::string tokenizer_name = "bytes";
  std::string train_file;
  std::string validation_file;
  std::string dataset_name;
  std::string dataset_config_name;
  std::string cache_dir;
  double validation_split_percentage = 5;
  std::int64_t block_size = 0;  // 0: the model's n_positions, at most 1024

  // Batches and length.
  std::optional<std::int64_t> per_device_train_batch_size;  // per data shard
  std::optional<std::int64_t> global_batch_size;            // of one micro-batch over all data shards
  std::optional<std::int64_t> per_device_eval_batch_size;
  std::optional<std::int64_t> max_eval_samples;  // blocks of held-out text; none: all
  std::int64_t gradient_accumulation_steps = 1;
  std::int64_t max_steps = -1;
  double num_train_epochs = 3;
  bool dataloader_drop_last = false;

  // Optimizer.
  std::string optim = "adamw_torch";
  double learning_rate = 5e-5;
  double weight_decay = 0;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double max_grad_norm = 1.0;
  std::string lr_scheduler_type = "linear";
  double warmup_steps = 0;  // below 1: a part of all steps
  std::int64_t seed = 42;
  std::optional<std::int64_t> data_seed;

  // Precision.
  bool bf16 = false;
  std::string dtype = "float32";

  // Mesh and sharding.
  std::string mesh;
  std::string fsdp;
  std::string fsdp_config;
  std::string tensor_parallel;
  bool dry_run = false;
  std::int64_t virtual_ranks = 0;

  // Output.
  std::string output_dir;
  bool overwrite_output_dir = false;
  std::int64_t logging_steps = 500;
  bool logging_first_step = false;
  bool do_train = true;
  bool do_eval = true;
  bool disable_tqdm = false;
  std::string sample_prompt;
  std::int64_t sample_tokens = 200;

  /// Binds every field to its flag.
  void add_flags(ArgumentParser& parser);
  /// Errors: values out of range, flags that exclude each other, text missing. The message names the flags.
  void check() const;
  /// Name and value of every flag, as text.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> values() const;

  /// Rows of a micro-batch over all data shards.
  [[nodiscard]] std::int64_t micro_batch_rows(std::int64_t data_shards) const;
  [[nodiscard]] std::int64_t eval_batch_rows(std::int64_t data_shards) const;
  /// Updates in the whole run: max_steps, or num_train_epochs of `micro_batches_per_epoch`.
  [[nodiscard]] std::int64_t total_steps(std::int64_t micro_batches_per_epoch) const;
  /// warmup_steps as a number of updates.
  [[nodiscard]] std::int64_t warmup_count(std::int64_t total_steps) const;
};

/// Reads the command line of `program`; none when --help was asked for, which is then printed.
std::optional<TrainingArguments> parse_training_arguments(int argc, const char* const* argv, const std::string& program,
                                                          const std::string& about);

/// What `--fsdp "full_shard auto_wrap"` asks for.
struct FsdpMode {
  bool enabled = false;
  bool reshard_after_forward = true;  // full_shard; false is shard_grad_op
  bool hybrid = false;                // replicated over a second axis
  bool offload = false;
};
/// Reads the options of --fsdp; "true" is full_shard. Errors: an unknown option (with the nearest), two that exclude each other.
FsdpMode parse_fsdp_mode(const std::string& text);

/// What --fsdp_config says; keys may carry Hugging Face's prefix `fsdp_`.
struct FsdpConfig {
  std::vector<std::string> transformer_layer_cls_to_wrap;  // empty: the repeated block
  std::int64_t min_num_params = 0;                         // > 0: the size-based policy
  std::optional<bool> reshard_after_forward;               // overrides --fsdp
  std::string compute_dtype;                               // "": as stored; float32, bfloat16, float16
  std::string reduce_dtype;                                // of gradients; the same words
  bool shard_param_on_dim_0 = true;
  /// One line for each key that asks for what has no effect here, and why; to be shown to the user.
  std::vector<std::string> notes;

  /// Errors: an unknown key (with the nearest), both min_num_params and transformer_layer_cls_to_wrap, a value of another type.
  static FsdpConfig from_json(const JsonObject& json);
};

}  // namespace tessera::trainer
