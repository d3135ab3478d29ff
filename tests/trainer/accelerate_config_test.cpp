// SPDX-License-Identifier: Apache-2.0
// --config_file of Accelerate, and --fsdp_config together with other flags.
#include <gtest/gtest.h>

#include "support/temporary_folder.h"
#include "tessera/base/error.h"
#include "tessera/trainer/arguments.h"

namespace tessera::trainer {
namespace {

using ::tessera::testing::error_of;
using ::tessera::testing::TemporaryFolder;

TrainingArguments run_clm_arguments(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {"run_clm", "--config_name", "c.json", "--train_file", "t.txt"});
  std::vector<const char*> words;
  for (const std::string& flag : flags) words.push_back(flag.c_str());
  return *parse_training_arguments(static_cast<int>(words.size()), words.data(), "run_clm", "");
}

TEST(AccelerateConfig, GivesPrecisionFsdpAndSizes) {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("a.yaml",
                   "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\n"
                   "num_processes: 6\nmain_process_port: 29500\nfsdp_config:\n"
                   "  fsdp_version: 2\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
                   "  fsdp_transformer_layer_cls_to_wrap: GPT2MLP\n  fsdp_reshard_after_forward: false\n"
                   "parallelism_config:\n  parallelism_config_dp_replicate_size: 1\n"
                   "  parallelism_config_dp_shard_size: 3\n  parallelism_config_tp_size: 2\n");
  const TrainingArguments a = run_clm_arguments({"--config_file", path});
  EXPECT_TRUE(a.bf16);
  EXPECT_EQ(a.fsdp + "/" + a.mesh + "/" + a.tensor_parallel, "true/fsdp=3,model=2/model");
  EXPECT_EQ(a.expected_ranks, 6);
  const FsdpConfig config = FsdpConfig::of(a);
  EXPECT_EQ(config.transformer_layer_cls_to_wrap, (std::vector<std::string>{"GPT2MLP"}));
  EXPECT_EQ(config.reshard_after_forward, false);
  const TrainingArguments own = run_clm_arguments({"--config_file", path, "--mesh", "data=4", "--bf16", "false"});
  EXPECT_EQ(own.mesh, "data=4");
  EXPECT_FALSE(own.bf16);
  const std::string half = folder.write("b.yaml", "mixed_precision: fp16\n");
  EXPECT_TRUE(run_clm_arguments({"--config_file", half}).fp16);
  EXPECT_FALSE(run_clm_arguments({"--config_file", half, "--fp16", "false"}).fp16);
  EXPECT_FALSE(run_clm_arguments({"--config_file", half, "--bf16"}).fp16);
}

TEST(AccelerateConfig, WhatCannotBeDoneIsAnError) {
  const TemporaryFolder folder;
  const auto error = [&](const char* text) {
    return error_of([&] { run_clm_arguments({"--config_file", folder.write("a.yaml", text)}); });
  };
  EXPECT_NE(error("distributed_type: DEEPSPEED\n").find("distributed_type DEEPSPEED is not supported; use FSDP"),
            std::string::npos);
  EXPECT_NE(error("mixed_precison: bf16\n").find("unknown key \"mixed_precison\"; did you mean \"mixed_precision\"?"),
            std::string::npos);
  EXPECT_NE(error("mixed_precision: fp8\n").find("mixed_precision must be no, bf16 or fp16, got fp8"),
            std::string::npos);
  EXPECT_NE(error("parallelism_config:\n  parallelism_config_tp_siz: 2\n")
                .find("parallelism_config: unknown key \"parallelism_config_tp_siz\"; did you mean"),
            std::string::npos);
}

// --mesh and --tensor_parallel of a file of Accelerate.
std::string layout_of(const char* yaml, const std::vector<std::string>& flags = {}) {
  const TemporaryFolder folder;
  std::vector<std::string> all = {"--config_file", folder.write("a.yaml", yaml)};
  all.insert(all.end(), flags.begin(), flags.end());
  const TrainingArguments a = run_clm_arguments(all);
  return a.fsdp + "/" + a.mesh + "/" + a.tensor_parallel;
}

TEST(AccelerateConfig, SizesNeedNoFsdpConfig) {
  EXPECT_EQ(layout_of("distributed_type: FSDP\nparallelism_config:\n  parallelism_config_dp_shard_size: 2\n"
                      "  parallelism_config_dp_replicate_size: 2\n"),
            "true/data=2,fsdp=2/");
  const char* without_fsdp =
      "distributed_type: MULTI_CPU\nparallelism_config:\n  parallelism_config_tp_size: 2\n"
      "  parallelism_config_dp_replicate_size: 2\n";
  EXPECT_EQ(layout_of(without_fsdp), "/data=2,model=2/model");
  EXPECT_EQ(layout_of(without_fsdp, {"--mesh", "data=4"}), "/data=4/");
  EXPECT_EQ(layout_of(without_fsdp, {"--fsdp", "full_shard", "--fsdp_config", R"({"fsdp_size": 3})"}),
            "full_shard/fsdp=3/");
  EXPECT_EQ(layout_of("distributed_type: FSDP\nfsdp_config:\nparallelism_config:\n  dp_shard_size: 3\n"),
            "true/fsdp=3/");
}

TEST(AccelerateConfig, MayBeTheFileOfFsdpConfig) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.yaml",
                                        "distributed_type: FSDP\nparallelism_config:\n  tp_size: 2\n"
                                        "  dp_shard_size: 2\n");
  EXPECT_EQ(run_clm_arguments({"--fsdp", "full_shard", "--fsdp_config", path}).mesh, "fsdp=2,model=2");
  const std::string both =
      folder.write("b.yaml", "fsdp_config:\n  fsdp_size: 2\nparallelism_config:\n  dp_shard_size: 4\n");
  EXPECT_EQ(
      error_of([&] {
        run_clm_arguments({"--fsdp", "full_shard", "--fsdp_config", both});
      }),
      fmt::format("fsdp_size 2 in fsdp_config of {} and dp_shard_size 4 in parallelism_config of {} are different "
                  "sizes of one axis",
                  both, both));
}

TEST(AccelerateConfig, ShardsWithoutFsdpAreNoted) {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("a.yaml", "distributed_type: MULTI_CPU\nparallelism_config:\n  dp_shard_size: 2\n");
  EXPECT_EQ(
      run_clm_arguments({"--config_file", path}).notes,
      std::vector<std::string>{fmt::format(
          "dp_shard_size 2 in parallelism_config of {}: without --fsdp, only the rows of batches are sharded over "
          "fsdp; --fsdp full_shard also shards the weights",
          path)});
}

// ---- --fsdp_config and other flags ----------------------------------------------------------------------------------------

std::string error_of_config(const char* json, std::vector<std::string> flags = {}) {
  flags.insert(flags.end(), {"--fsdp", "full_shard", "--fsdp_config", json});
  return error_of([&] { run_clm_arguments(flags); });
}

TEST(FsdpConfigFlags, TypesMustAgree) {
  EXPECT_EQ(error_of_config(R"({"xla_fsdp_settings": {"compute_dtype": "bfloat16"}})", {"--dtype", "float64"}),
            "--dtype float64 and xla_fsdp_settings.compute_dtype bfloat16 in --fsdp_config exclude each other");
  EXPECT_EQ(error_of_config(R"({"mixed_precision_policy": "fp32"})", {"--bf16"}),
            "--bf16 and mixed_precision_policy fp32 in --fsdp_config exclude each other");
  EXPECT_EQ(error_of_config(R"({"xla_fsdp_settings": {"compute_dtype": "float32"}})", {"--bf16"}),
            "--bf16 and xla_fsdp_settings.compute_dtype float32 in --fsdp_config exclude each other");
  EXPECT_EQ(
      error_of_config(R"({"mixed_precision_policy": {"reduce_dtype": "bfloat16"}})"),
      "mixed_precision_policy.reduce_dtype bfloat16 in --fsdp_config: gradients are computed in float32, and their "
      "reduction may not be narrower; give --bf16, too");
  EXPECT_EQ(error_of_config(R"({"mixed_precision_policy": {"reduce_dtype": "float16"}})", {"--bf16"}),
            "mixed_precision_policy.reduce_dtype float16 in --fsdp_config: gradients are computed in bfloat16, so they "
            "are reduced in this type or in float32");
  EXPECT_EQ(error_of_config(R"({"mixed_precision_policy": "bf16"})", {"--fp16"}),
            "--fp16 and mixed_precision_policy bf16 in --fsdp_config exclude each other");
  EXPECT_EQ(error_of_config(R"({"mixed_precision_policy": "bf16"})", {"--bf16"}), "no error");
  EXPECT_EQ(error_of_config(R"({"mixed_precision_policy": {"reduce_dtype": "float16"}})", {"--fp16"}), "no error");
  EXPECT_EQ(error_of_config(R"({"xla_fsdp_settings": {"fp32_reduce_scatter": true}})"), "no error");
  const TemporaryFolder folder;
  const std::string path = folder.write("a.yaml",
                                        "distributed_type: FSDP\nmixed_precision: bf16\nfsdp_config:\n"
                                        "  fsdp_mixed_precision_policy: fp32\n");
  EXPECT_EQ(error_of([&] {
              run_clm_arguments({"--config_file", path});
            }),
            fmt::format("mixed_precision bf16 in {} and fsdp_mixed_precision_policy fp32 in fsdp_config of {} exclude "
                        "each other",
                        path, path));
}

TEST(FsdpConfigFlags, AMemoryBudgetExcludesRecomputedBlocks) {
  const std::string begin = "--max_memory_per_rank chooses what to recompute, so it excludes ";
  EXPECT_EQ(error_of_config(R"({"activation_checkpointing": true})", {"--max_memory_per_rank", "1GB"}),
            begin + "activation_checkpointing true in --fsdp_config");
  EXPECT_EQ(error_of_config(R"({"xla": true, "xla_fsdp_grad_ckpt": true})", {"--max_memory_per_rank", "1GB"}),
            begin + "xla_fsdp_grad_ckpt true in --fsdp_config");
  const TemporaryFolder folder;
  const std::string path = folder.write("f.json", R"({"fsdp_activation_checkpointing": true})");
  EXPECT_EQ(error_of_config(path.c_str(), {"--max_memory_per_rank", "1GB"}),
            begin + "fsdp_activation_checkpointing true in " + path);
  EXPECT_EQ(error_of_config(R"({"activation_checkpointing": false})", {"--max_memory_per_rank", "1GB"}), "no error");
}

TEST(FsdpConfigFlags, MessagesNameTheKeysThatTheUserWrote) {
  EXPECT_EQ(error_of_config(R"({"tp_size": 2})"),
            "--fsdp shards over an axis called fsdp or data, and the mesh model=2 of tp_size 2 in --fsdp_config has "
            "neither; give dp_shard_size, too");
  EXPECT_EQ(error_of_config(R"({"dp_shard_size": 4, "fsdp_size": 2})"),
            "--fsdp_config: dp_shard_size 4 and fsdp_size 2 are different sizes of one axis");
  EXPECT_EQ(
      error_of_config(R"({"dp_shard_size": 2})", {"--tensor_parallel", "model"}),
      "--tensor_parallel: the mesh fsdp=2 of dp_shard_size 2 in --fsdp_config has no axis \"model\"; known: fsdp");
  EXPECT_EQ(error_of_config(R"({"auto_wrap_policy": "SIZE_BASED_WRAP"})",
                            {"--fsdp_transformer_layer_cls_to_wrap", "GPT2Block"}),
            "auto_wrap_policy SIZE_BASED_WRAP in --fsdp_config and --fsdp_transformer_layer_cls_to_wrap exclude each "
            "other");
  const TemporaryFolder folder;
  const std::string path = folder.write("a.yaml", "distributed_type: FSDP\n");
  EXPECT_EQ(error_of([&] {
              run_clm_arguments({"--config_file", path, "--auto_shard"});
            }),
            "--auto_shard chooses the mesh and the sharding, so it excludes distributed_type FSDP in " + path);
}

// ---- the keys of --fsdp_config --------------------------------------------------------------------------------------------

FsdpConfig config_of(const char* json) { return FsdpConfig::from_json(JsonObject::parse(json, "f.json")); }

TEST(FsdpConfig, ReadsAcceleratesKeys) {
  EXPECT_EQ(config_of(R"({"fsdp_sharding_strategy": "HYBRID_SHARD_ZERO2"})").reshard_after_forward, false);
  EXPECT_EQ(config_of(R"({"fsdp_sharding_strategy": 4})").hybrid, true);
  EXPECT_EQ(config_of(R"({"fsdp_sharding_strategy": 2})").reshard_after_forward, false);
  EXPECT_TRUE(config_of(R"({"fsdp_activation_checkpointing": true})").activation_checkpointing);
  EXPECT_FALSE(config_of(R"({"auto_wrap_policy": "NO_WRAP"})").wraps);
  EXPECT_EQ(config_of(R"({"auto_wrap_policy": "SIZE_BASED_WRAP"})").min_num_params, 100'000'000);
  EXPECT_EQ(config_of(R"({"auto_wrap_policy": "SIZE_BASED_WRAP", "min_num_params": 5})").min_num_params, 5);
  EXPECT_FALSE(config_of(R"({"xla_fsdp_settings": {"disable_reshard_on_root": false}})").disable_reshard_on_root);
  EXPECT_EQ(config_of(R"({"xla_fsdp_settings": {"fp32_reduce_scatter": true}})").reduce_dtype, "float32");
  const auto axes = config_of(R"({"dp_replicate_size": 2, "fsdp_size": -1})").axes;
  EXPECT_EQ(axes, (std::vector<std::pair<std::string, std::int64_t>>{{"data", 2}, {"fsdp", -1}}));
}

TEST(FsdpConfig, ValuesThatDoNotExistAreErrors) {
  EXPECT_EQ(error_of([] { config_of(R"({"sharding_strategy": "FULL_SHRD"})"); }),
            "f.json: sharding_strategy must be one of FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD, "
            "HYBRID_SHARD_ZERO2, got \"FULL_SHRD\"; did you mean \"FULL_SHARD\"?");
  EXPECT_EQ(error_of([] { config_of(R"({"sharding_strategy": "NO_SHARD"})"); }),
            "f.json: sharding_strategy NO_SHARD shards nothing; leave out --fsdp for data parallelism");
  EXPECT_EQ(error_of([] { config_of(R"({"cp_size": 2})"); }),
            "f.json: cp_size must be 1, because no key shards sequences; use tp_size");
}

TEST(FsdpConfig, MayBeTextOfAFlag) {
  TrainingArguments a;
  a.fsdp_config = R"({"min_num_params": 11})";
  EXPECT_EQ(FsdpConfig::of(a).min_num_params, 11);
  a.fsdp_config.clear();
  a.fsdp_transformer_layer_cls_to_wrap = "GPT2MLP,GPT2Attention";
  EXPECT_EQ(FsdpConfig::of(a).transformer_layer_cls_to_wrap, (std::vector<std::string>{"GPT2MLP", "GPT2Attention"}));
}

}  // namespace
}  // namespace tessera::trainer
