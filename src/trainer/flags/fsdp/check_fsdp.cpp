// SPDX-License-Identifier: Apache-2.0
#include "flags/fsdp/check_fsdp.h"

#include <filesystem>

#include "tessera/base/error.h"

namespace tessera::trainer {
namespace {

// The type of products that a flag selects; "" if there is no such flag.
std::string type_of_flags(const TrainingArguments& arguments) {
  return arguments.bf16 ? "bfloat16" : arguments.fp16 ? "float16" : "";
}

// The types of weights (--dtype), of products (--bf16, --fp16, compute_dtype) and of reductions (reduce_dtype).
void check_precision(const TrainingArguments& arguments, const FsdpConfig& config) {
  const bool is_f64 = arguments.dtype == "float64";
  for (const char* field : {"compute_dtype", "reduce_dtype"})
    require(!is_f64 || !config.given.contains(field), "--dtype float64 and {} exclude each other",
            [&] { return config.what_gave(field); });
  const std::string by_flag = type_of_flags(arguments);
  require(
      by_flag.empty() || config.compute_dtype.empty() || config.compute_dtype == by_flag,
      "{} and {} exclude each other", [&] { return arguments.what_gave(arguments.bf16 ? "bf16" : "fp16"); },
      [&] { return config.what_gave("compute_dtype"); });
  const std::string computed = !by_flag.empty() ? by_flag : config.compute_dtype;
  const bool computes_in_f32 = computed.empty() || computed == "float32";
  const std::string& reduced = config.reduce_dtype;
  const bool fits = reduced.empty() || reduced == "float32" || reduced == computed;
  const auto what_gave = [&] { return config.what_gave("reduce_dtype"); };
  require(fits || !computes_in_f32,
          "{}: gradients are computed in float32, and their reduction may not be narrower; give {}, too", what_gave,
          reduced == "float16" ? "--fp16" : "--bf16");
  require(fits, "{}: gradients are computed in {}, so they are reduced in this type or in float32", what_gave,
          computed);
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
