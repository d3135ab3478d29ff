// SPDX-License-Identifier: Apache-2.0
#include "flags/fsdp/accelerate_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "flags/fsdp/mesh_sizes.h"
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
  require(precision == "no" || precision == "bf16" || precision == "fp16",
          "{}: mixed_precision must be no, bf16 or fp16, got {}", file.origin(), precision);
  if (parser.was_given("bf16") || parser.was_given("fp16") || arguments.dtype == "float64") return;
  arguments.bf16 = precision == "bf16";
  arguments.fp16 = precision == "fp16";
  arguments.given_by_file[arguments.fp16 ? "fp16" : "bf16"] =
      fmt::format("mixed_precision {} in {}", precision, file.origin());
}

void apply_distribution(const JsonObject& file, TrainingArguments& arguments, const ArgumentParser& parser) {
  static const std::vector<std::string> kKinds = {"NO",        "FSDP",      "XLA",       "TPU",       "MULTI_CPU",
                                                  "MULTI_GPU", "MULTI_XPU", "MULTI_NPU", "MULTI_HPU", "MULTI_MLU"};
  std::string kind = "NO";
  if (!file.is_bool("distributed_type")) file.read("distributed_type", kind);
  const bool is_known = std::find(kKinds.begin(), kKinds.end(), kind) != kKinds.end();
  require(is_known, "{}: distributed_type {} is not supported; use FSDP, or MULTI_CPU for data parallelism{}",
          file.origin(), kind, [&] { return suggest_name(kind, kKinds); });
  if (kind == "FSDP" && !parser.was_given("fsdp")) {
    arguments.fsdp = "true";
    arguments.given_by_file["fsdp"] = fmt::format("distributed_type FSDP in {}", file.origin());
  }
  if (arguments.fsdp.empty() || !file.has("fsdp_config") || parser.was_given("fsdp_config")) return;
  arguments.fsdp_config = arguments.accelerate_config;
  arguments.given_by_file["fsdp_config"] = fmt::format("fsdp_config in {}", file.origin());
}

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

// Without --mesh, the sizes in --fsdp_config or --config_file are those of the mesh.
void set_mesh(TrainingArguments& arguments) {
  if (!arguments.mesh.empty()) return;
  const MeshSizes sizes = mesh_of_files(arguments);
  for (const auto& [name, size] : sizes.axes) {
    arguments.mesh += fmt::format("{}{}={}", arguments.mesh.empty() ? "" : ",", name, size);
    arguments.given_by_file["mesh"] = sizes.what_gave;
    const bool is_of_weights = name == "model" && arguments.tensor_parallel.empty();
    if (is_of_weights) arguments.tensor_parallel = name;
    if (is_of_weights) arguments.given_by_file["tensor_parallel"] = sizes.what_gave;
    if (name == "fsdp" && arguments.fsdp.empty())
      arguments.notes.push_back(
          fmt::format("{}: without --fsdp, only the rows of batches are sharded over fsdp; --fsdp full_shard also "
                      "shards the weights",
                      sizes.what_gave));
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
  set_mesh(arguments);
}

}  // namespace tessera::trainer
