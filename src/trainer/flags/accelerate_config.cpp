// SPDX-License-Identifier: Apache-2.0
#include "flags/accelerate_config.h"

#include <algorithm>

#include "tessera/base/command_line.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/yaml.h"

namespace tessera::trainer {
namespace {

// Keys about starting processes: mpirun does this.
constexpr const char* kLaunchKeys[] = {"compute_environment",
                                       "debug",
                                       "downcast_bf16",
                                       "dynamo_config",
                                       "dynamo_backend",
                                       "enable_cpu_affinity",
                                       "gpu_ids",
                                       "machine_rank",
                                       "main_process_ip",
                                       "main_process_port",
                                       "main_training_function",
                                       "max_restarts",
                                       "monitor_interval",
                                       "mpirun_config",
                                       "num_cpu_threads_per_process",
                                       "num_machines",
                                       "rdzv_backend",
                                       "rdzv_conf",
                                       "same_network",
                                       "tpu_cluster",
                                       "tpu_env",
                                       "tpu_name",
                                       "tpu_use_cluster",
                                       "tpu_use_sudo",
                                       "tpu_vm",
                                       "tpu_zone",
                                       "use_cpu",
                                       "ipex_config",
                                       "commands",
                                       "command_file"};

void apply_precision(const JsonObject& file, TrainingArguments& arguments, const ArgumentParser& parser) {
  std::string precision = "no";
  if (file.is_bool("mixed_precision")) return;  // `no` without quotes, as some readers understand it
  file.read("mixed_precision", precision);
  const bool is_known = precision == "no" || precision == "bf16" || precision == "fp16";
  require(is_known, "{}: mixed_precision must be no, bf16 or fp16, got {}", file.origin(), precision);
  require(precision != "fp16" || parser.was_given("bf16"), "{}: mixed_precision fp16 is not supported; use bf16",
          file.origin());
  if (!parser.was_given("bf16") && arguments.dtype != "float64") arguments.bf16 = precision == "bf16";
}

void apply_distribution(const JsonObject& file, TrainingArguments& arguments, const ArgumentParser& parser) {
  static const std::vector<std::string> kKinds = {"NO",        "FSDP",      "XLA",       "TPU",       "MULTI_CPU",
                                                  "MULTI_GPU", "MULTI_XPU", "MULTI_NPU", "MULTI_HPU", "MULTI_MLU"};
  std::string kind = "NO";
  if (!file.is_bool("distributed_type")) file.read("distributed_type", kind);
  const bool is_known = std::find(kKinds.begin(), kKinds.end(), kind) != kKinds.end();
  require(is_known, "{}: distributed_type {} is not supported; use FSDP, or MULTI_CPU for data parallelism{}",
          file.origin(), kind, [&] { return suggest_name(kind, kKinds); });
  if (kind == "FSDP" && !parser.was_given("fsdp")) arguments.fsdp = "true";
  if (!arguments.fsdp.empty() && file.has("fsdp_config") && !parser.was_given("fsdp_config"))
    arguments.fsdp_config = arguments.accelerate_config;
}

// The sizes of parallelism_config are read with those of fsdp_config.
}  // namespace

void apply_accelerate_config(TrainingArguments& arguments, const ArgumentParser& parser) {
  if (arguments.accelerate_config.empty()) return;
  const JsonObject file = yaml_from_file(arguments.accelerate_config);
  std::vector<std::string> known = {"distributed_type", "mixed_precision",    "fsdp_config",
                                    "num_processes",    "parallelism_config", "gradient_accumulation_steps"};
  known.insert(known.end(), std::begin(kLaunchKeys), std::end(kLaunchKeys));
  for (const char* other : {"deepspeed_config", "megatron_lm_config", "fp8_config", "smp_config", "te_config"})
    require(!file.has(other) || file.is_null(other) || file.text(other) == "{}",
            "{}: {} is not supported; use fsdp_config", file.origin(), other);
  for (const char* other : {"deepspeed_config", "megatron_lm_config", "fp8_config", "smp_config", "te_config"})
    known.emplace_back(other);
  file.require_known(known);
  apply_precision(file, arguments, parser);
  apply_distribution(file, arguments, parser);
  if (!parser.was_given("gradient_accumulation_steps"))
    file.read("gradient_accumulation_steps", arguments.gradient_accumulation_steps);
  file.read("num_processes", arguments.expected_ranks);
}

namespace {

// Sizes of a mesh that a file gives. A mistake in the file is reported when the run reads it, as of every other file.
std::vector<std::pair<std::string, std::int64_t>> axes_of_files(const TrainingArguments& arguments) {
  try {
    return FsdpConfig::of(arguments).axes;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

void settle_arguments(TrainingArguments& arguments, const ArgumentParser& parser) {
  arguments.notes.insert(arguments.notes.end(), parser.notes().begin(), parser.notes().end());
  require(!arguments.adafactor || !parser.was_given("optim") || arguments.optim == "adafactor",
          "--adafactor true and --optim {} exclude each other", arguments.optim);
  if (arguments.adafactor) arguments.optim = "adafactor";
  const std::string& order = arguments.train_sampling_strategy;
  require(!arguments.group_by_length || order != "sequential",
          "--group_by_length and --train_sampling_strategy {} exclude each other", order);
  if (arguments.group_by_length) arguments.train_sampling_strategy = "group_by_length";
  read_option("--config_file", [&] { reading_file([&] { apply_accelerate_config(arguments, parser); }); });
  if (!arguments.mesh.empty()) return;
  const auto axes = axes_of_files(arguments);
  for (const auto& [name, size] : axes) {
    arguments.mesh += fmt::format("{}{}={}", arguments.mesh.empty() ? "" : ",", name, size);
    if (name == "model" && size > 1 && arguments.tensor_parallel.empty()) arguments.tensor_parallel = name;
  }
}

}  // namespace tessera::trainer
