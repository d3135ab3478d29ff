// SPDX-License-Identifier: Apache-2.0
#include "flags/fsdp/check_fsdp.h"

#include <filesystem>

#include "tessera/base/error.h"

namespace tessera::trainer {
namespace {

// The types of weights (--dtype), of products (--bf16, compute_dtype) and of reductions (reduce_dtype).
void check_precision(const TrainingArguments& arguments, const FsdpConfig& config) {
  const bool is_f64 = arguments.dtype == "float64";
  for (const char* field : {"compute_dtype", "reduce_dtype"})
    require(!is_f64 || !config.given.contains(field), "--dtype float64 and {} exclude each other",
            [&] { return config.what_gave(field); });
  const bool has_other = !config.compute_dtype.empty() && config.compute_dtype != "bfloat16";
  require(
      !arguments.bf16 || !has_other, "{} and {} exclude each other", [&] { return arguments.what_gave("bf16"); },
      [&] { return config.what_gave("compute_dtype"); });
  const bool computes_in_bf16 = arguments.bf16 || config.compute_dtype == "bfloat16";
  require(config.reduce_dtype != "bfloat16" || computes_in_bf16,
          "{}: gradients are computed in float32, and their reduction may not be narrower; give --bf16, too",
          [&] { return config.what_gave("reduce_dtype"); });
}

}  // namespace

bool can_read_fsdp_config(const TrainingArguments& arguments) {
  const std::string file = arguments.fsdp_config_file();
  std::error_code ignored;
  return file.empty() || std::filesystem::exists(file, ignored);
}

void check_fsdp_config(const TrainingArguments& arguments) {
  if (!can_read_fsdp_config(arguments)) return;
  const FsdpConfig config = FsdpConfig::of(arguments);
  check_precision(arguments, config);
  require(arguments.max_memory_per_rank.empty() || !config.activation_checkpointing,
          "--max_memory_per_rank chooses what to recompute, so it excludes {}",
          [&] { return config.what_gave("activation_checkpointing"); });
}

}  // namespace tessera::trainer
