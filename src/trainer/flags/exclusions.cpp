// SPDX-License-Identifier: Apache-2.0
#include "flags/exclusions.h"

#include <utility>

namespace tessera::trainer {
namespace {

constexpr std::pair<const char*, const char*> kExclusions[] = {
    // Data.
    {"train_file", "dataset_name"},
    {"train_file", "data_dir"},
    {"fake_data", "train_file"},
    {"fake_data", "validation_file"},
    {"fake_data", "dataset_name"},
    // Batches.
    {"global_batch_size", "per_device_train_batch_size"},
    {"global_batch_size", "batch_size"},
    {"global_batch_size", "auto_find_batch_size"},
    {"length_buckets", "pad_to_max_length"},
    {"group_by_length", "train_sampling_strategy"},
    // Optimizer, precision and memory.
    {"adafactor", "optim"},
    {"bf16", "dtype=float64"},
    {"fp16", "dtype=float64"},
    {"bf16", "fp16"},
    {"gradient_checkpointing", "max_memory_per_rank"},
    // Mesh and sharding.
    {"auto_shard", "mesh"},
    {"auto_shard", "fsdp"},
    {"auto_shard", "fsdp_config"},
    {"auto_shard", "tensor_parallel"},
    {"auto_shard", "expert_parallel"},
    {"auto_shard", "max_memory_per_rank"},
    {"auto_shard", "auto_find_batch_size"},
    {"fsdp_min_num_params", "fsdp_transformer_layer_cls_to_wrap"},
};

}  // namespace

void add_exclusions(ArgumentParser& parser) {
  for (const auto& [one, other] : kExclusions) parser.exclude(one, other);
}

}  // namespace tessera::trainer
