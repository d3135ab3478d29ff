// SPDX-License-Identifier: Apache-2.0
#include "flags/foreign_flags.h"

namespace tessera::trainer {
namespace {

// A flag, Hugging Face's default ("": None), and the reason.
struct ForeignRow {
  const char* name;
  const char* standard;
  const char* reason;
};

// Of the functions that recompute activations.
constexpr const char* kKwargs = R"({"use_reentrant": false})";

constexpr ForeignRow kWithoutEffect[] = {
    {"activation_checkpointing_kwargs", kKwargs,
     "blocks keep only their inputs; to recompute less, use --max_memory_per_rank"},
    {"attn_implementation", "", "attention has one implementation"},
    {"average_tokens_across_devices", "true", "losses always are means over the labels of all ranks"},
    {"batch_eval_metrics", "false", "metrics are added up on the ranks batch by batch"},
    {"bf16_full_eval", "false", "an evaluation computes in the type of the training"},
    {"fp16_full_eval", "false", "an evaluation computes in the type of the training"},
    {"dataloader_in_order", "true", "batches always have the same order"},
    {"dataloader_multiprocessing_context", "", "workers are threads"},
    {"dataloader_persistent_workers", "false", "the threads live as long as the run"},
    {"dataloader_pin_memory", "true", "batches already are where the ranks compute"},
    {"ddp_backend", "mpi", "ranks communicate through shared memory and MPI"},
    {"ddp_broadcast_buffers", "", "buffers are equal on all ranks"},
    {"ddp_bucket_cap_mb", "", "the partitioner combines collectives"},
    {"ddp_find_unused_parameters", "", "parameters without gradients are known from the program"},
    {"ddp_static_graph", "", "programs are always static"},
    {"ddp_timeout", "1800", "TESSERA_COLLECTIVE_TIMEOUT is the time limit of collectives"},
    {"dispatch_batches", "", "every rank makes its rows of a batch"},
    {"enable_jit_checkpoint", "false", "SIGTERM always ends with a checkpoint"},
    {"eval_accumulation_steps", "", "losses are added up on the ranks"},
    {"eval_do_concat_batches", "true", "losses are added up on the ranks"},
    {"eval_use_gather_object", "false", "losses are added up on the ranks"},
    {"fp16_backend", "auto", "there is one implementation"},
    {"fp16_opt_level", "O1", "there is one implementation"},
    {"gradient_checkpointing_kwargs", kKwargs,
     "blocks keep only their inputs; to recompute less, use --max_memory_per_rank"},
    {"half_precision_backend", "auto", "there is one implementation"},
    {"ignore_mismatched_sizes", "false", "a classifier that is not in the folder starts from initial values"},
    {"include_tokens_per_second", "false", "the log always has the speed"},
    {"jit_mode_eval", "false", "programs are always compiled"},
    {"keep_linebreaks", "true", "line breaks are kept"},
    {"liger_kernel_config", "", "losses and norms are already fused"},
    {"length_column_name", "length", "lengths are known without a column"},
    {"local_rank", "-1", "ranks come from mpirun or --virtual_ranks"},
    {"log_level", "passive", "TESSERA_LOG_LEVEL is the level of messages"},
    {"log_level_replica", "warning", "a message is printed once"},
    {"log_on_each_node", "true", "rank 0 logs"},
    {"logging_nan_inf_filter", "true", "a loss that is not finite ends the run; with --fp16, the log leaves it out"},
    {"low_cpu_mem_usage", "false", "every rank reads only its shards"},
    {"model_revision", "main", "models are folders"},
    {"no_cuda", "false", "ranks compute on CPUs"},
    {"optim_target_modules", "", "--optim applies to all parameters"},
    {"prediction_loss_only", "false", "an evaluation keeps no predictions"},
    {"preprocessing_num_workers", "", "texts are tokenized once by each rank"},
    {"ray_scope", "last", "there is no search for hyperparameters"},
    {"remove_unused_columns", "true", "columns without a use are not read"},
    {"restore_callback_states_from_checkpoint", "false", "the state of early stopping is in trainer_state.json"},
    {"save_on_each_node", "false", "every rank writes its shards into one folder"},
    {"save_safetensors", "true", "weights are always written as safetensors"},
    {"skip_memory_metrics", "true", "the planned memory is always reported"},
    {"split_batches", "false", "--global_batch_size counts the rows over all data shards"},
    {"tf32", "", "CPUs compute in full float32"},
    {"tokenizer_revision", "main", "tokenizers are files"},
    {"torch_compile", "false", "programs are always compiled"},
    {"torch_compile_backend", "", "there is one compiler"},
    {"torch_compile_mode", "", "there is one compiler"},
    {"torch_empty_cache_steps", "", "memory is planned before the first step"},
    {"torchdynamo", "", "programs are always compiled"},
    {"tpu_num_cores", "", "the number of ranks comes from mpirun or --num_cores"},
    {"trust_remote_code", "false", "no code is downloaded"},
    {"use_cache", "false", "a training step has no use for earlier keys and values"},
    {"use_cpu", "false", "ranks compute on CPUs"},
    {"use_fast_tokenizer", "true", "there is one implementation"},
    {"use_ipex", "false", "oneDNN is always used"},
    {"use_legacy_prediction_loop", "false", "there is one loop"},
    {"use_liger_kernel", "false", "losses and norms are already fused"},
};

// A program that has one of these flags does not refuse it.
constexpr ForeignRow kAbsent[] = {
    {"accelerator_config", "", "use --global_batch_size, --dataloader_drop_last and --data_seed"},
    {"deepspeed", "", "use --fsdp full_shard for ZeRO-3, --fsdp shard_grad_op for ZeRO-2"},
    {"do_predict", "false", "only run_classification writes predictions; use --do_eval"},
    {"dataset_revision", "", "data sets are folders"},
    {"evaluate_during_training", "false", "use --eval_strategy steps"},
    {"hub_always_push", "false", "nothing is uploaded"},
    {"hub_model_id", "", "nothing is uploaded"},
    {"hub_private_repo", "false", "nothing is uploaded"},
    {"hub_revision", "", "nothing is uploaded"},
    {"hub_strategy", "every_save", "nothing is uploaded"},
    {"hub_token", "", "nothing is uploaded"},
    {"include_for_metrics", "", "the metrics of a program are fixed"},
    {"include_inputs_for_metrics", "false", "the metrics of a program are fixed"},
    {"label_names", "labels", "the label column is called labels or label"},
    {"max_predict_samples", "", "only run_classification writes predictions; use --max_eval_samples"},
    {"mp_parameters", "", "use --mesh and --tensor_parallel"},
    {"neftune_noise_alpha", "", "only run_clm adds noise to embeddings"},
    {"parallelism_config", "", "use --mesh, or --config_file with Accelerate's sizes"},
    {"past_index", "-1", "no state is carried between batches"},
    {"project", "huggingface", "nothing is uploaded"},
    {"push_to_hub", "false", "nothing is uploaded"},
    {"push_to_hub_model_id", "", "nothing is uploaded"},
    {"push_to_hub_organization", "", "nothing is uploaded"},
    {"push_to_hub_token", "", "nothing is uploaded"},
    {"sharded_ddp", "", "use --fsdp full_shard for ZeRO-3, --fsdp shard_grad_op for ZeRO-2"},
    {"streaming", "false", "use a token file, which is read in parts"},
    {"test_file", "", "only run_classification writes predictions; use --validation_file"},
    {"text_column_name", "", "all columns but those of labels and numbers are texts"},
    {"token", "", "nothing is downloaded"},
    {"trackio_bucket_id", "", "nothing is uploaded"},
    {"trackio_static_space_id", "false", "nothing is uploaded"},
    {"trackio_space_id", "trackio", "nothing is uploaded"},
    {"use_auth_token", "", "nothing is downloaded"},
    {"use_mps_device", "false", "ranks compute on CPUs"},
};

// Keys of mmf's configurations, and the flags that they mean. `tessera launch` must find --output_dir, so that it has no
// other name.
constexpr std::pair<const char*, const char*> kOverrides[] = {
    {"config", "config_name"},
    {"dataset", "dataset_name"},
    {"dataset", "task_name"},  // glue_qnli, in run_classification
    {"model", "model_type"},
    {"optimizer.params.lr", "learning_rate"},
    {"training.batch_size", "global_batch_size"},
    {"training.checkpoint_interval", "save_steps"},
    {"training.evaluation_interval", "eval_steps"},
    {"training.experiment_name", "run_name"},
    {"training.log_interval", "logging_steps"},
    {"training.max_epochs", "num_train_epochs"},
    {"training.max_updates", "max_steps"},
    {"training.num_workers", "dataloader_num_workers"},
    {"training.seed", "seed"},
};

constexpr ForeignRow kOverridesWithoutEffect[] = {
    {"distributed.world_size", "", "ranks come from mpirun or --num_cores"},
    {"training.device", "xla", "every tensor is on the device xla:0"},
};

}  // namespace

void add_foreign_flags(ArgumentParser& parser) {
  for (const ForeignRow& row : kWithoutEffect) parser.without_effect(row.name, row.standard, row.reason);
  for (const ForeignRow& row : kAbsent) parser.absent(row.name, row.standard, row.reason);
  for (const ForeignRow& row : kOverridesWithoutEffect) parser.without_effect(row.name, row.standard, row.reason);
  for (const auto& [name, of] : kOverrides) parser.override_name(name, of);
}

}  // namespace tessera::trainer
