// SPDX-License-Identifier: Apache-2.0
// Older names, flags of other programs, and configuration files.
#include <gtest/gtest.h>

#include "flags/intervals.h"
#include "support/temporary_folder.h"
#include "tessera/trainer/arguments.h"

namespace tessera::trainer {
namespace {

using ::tessera::testing::error_of;
using ::tessera::testing::TemporaryFolder;

TrainingArguments settled(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {"run_clm", "--config_name", "c.json", "--train_file", "t.txt"});
  std::vector<const char*> words;
  for (const std::string& flag : flags) words.push_back(flag.c_str());
  return *parse_training_arguments(static_cast<int>(words.size()), words.data(), "run_clm", "");
}

TEST(Flags, OlderNamesMeanTheCurrentOnes) {
  const TrainingArguments a = settled({"--evaluation_strategy", "epoch", "--group_by_length", "--fsdp", "full_shard",
                                       "auto_wrap", "--warmup_ratio", "0.25"});
  EXPECT_EQ(a.eval_strategy + a.train_sampling_strategy + a.fsdp, "epochgroup_by_lengthfull_shard auto_wrap");
  EXPECT_EQ(a.warmup_count(10), 3);
  EXPECT_EQ(settled({"--warmup_ratio", "0.25", "--warmup_steps", "7"}).warmup_count(10), 7);
  EXPECT_EQ(error_of([] {
              settled({"--adafactor", "--optim", "sgd"});
            }),
            "--adafactor true and --optim sgd exclude each other");
}

TEST(Flags, HuggingFacesOtherFlagsAreNamedTogetherOrNoted) {
  EXPECT_EQ(error_of([] {
              settled({"--deepspeed", "d.json", "--push_to_hub", "--do_predict"});
            }),
            "flags of Hugging Face's programs do not exist here: --deepspeed (use --fsdp full_shard), --push_to_hub "
            "(nothing is uploaded), --do_predict (only run_classification writes predictions; use --do_eval)");
  const TrainingArguments a =
      settled({"--tf32", "true", "--torch_compile", "--fp16_full_eval", "--ddp_backend", "gloo"});
  EXPECT_EQ(a.notes, (std::vector<std::string>{
                         "--fp16_full_eval true has no effect: an evaluation computes in the type of the training",
                         "--ddp_backend gloo has no effect: ranks communicate through shared memory and MPI"}));
}

TEST(Flags, TheLogIsWrittenAsReportToSays) {
  EXPECT_FALSE(settled({}).reports_to("jsonl"));
  EXPECT_TRUE(settled({"--logging_dir", "d"}).reports_to("jsonl"));
  const TrainingArguments two = settled({"--logging_dir", "d", "--report_to", "csv", "tensorboard"});
  EXPECT_TRUE(two.reports_to("csv") && two.reports_to("tensorboard") && !two.reports_to("jsonl"));
  EXPECT_TRUE(settled({"--logging_dir", "d", "--report_to"}).reports_to("csv"));
  EXPECT_FALSE(settled({"--logging_dir", "d", "--report_to", "none"}).reports_to("jsonl"));
  EXPECT_EQ(error_of([] {
              settled({"--report_to", "wandb"});
            }),
            "--report_to wandb: there is no such value; known: none, jsonl, csv, tensorboard, all");
  EXPECT_EQ(error_of([] { settled({"--report_to", "csv"}); }), "--report_to csv needs --logging_dir");
}

TEST(Flags, EvaluationsThatNothingNeedsAreRefused) {
  EXPECT_EQ(error_of([] {
              settled({"--early_stopping_patience", "2"});
            }),
            "--early_stopping_patience needs evaluations: --eval_strategy steps or epoch");
  EXPECT_EQ(error_of([] {
              settled({"--save_strategy", "best", "--eval_strategy", "steps"});
            }),
            "--save_strategy best needs --output_dir");
  EXPECT_EQ(error_of([] { settled({"--early_stopping_patience", "2", "--eval_strategy", "steps"}); }), "no error");
}

TEST(Flags, IntervalsBelowOneAreFractionsOfAllUpdates) {
  const TrainingArguments a = settled({"--save_steps", "0.5", "--eval_steps", "0.25", "--logging_steps", "7"});
  const Intervals of = Intervals::of(a, 10);
  EXPECT_EQ(of.save, 5);
  EXPECT_EQ(of.evaluate, 3);
  EXPECT_EQ(of.log, 7);
  EXPECT_EQ(Intervals::of(a, 1).evaluate, 1);
  EXPECT_EQ(Intervals::of(settled({"--save_steps", "0.07"}), 100).save, 7) << "0.07 * 100 is above 7";
  for (const char* wrong : {"0", "-1", "2.5"})
    EXPECT_EQ(error_of([&] {
                settled({"--save_steps", wrong});
              }),
              fmt::format("--save_steps must be a whole number of updates, or a fraction of all updates above 0 and "
                          "below 1, got {}",
                          wrong));
}

TEST(Flags, TheBestModelNeedsAnEvaluationAtEachCheckpoint) {
  std::vector<std::string> flags = {"--load_best_model_at_end",
                                    "true",
                                    "--output_dir",
                                    "o",
                                    "--eval_strategy",
                                    "steps",
                                    "--save_steps",
                                    "0.5",
                                    "--eval_steps",
                                    "0.25"};
  EXPECT_EQ(error_of([&] { (void)Intervals::of(settled(flags), 10); }),
            "--load_best_model_at_end needs --save_steps to be a multiple of --eval_steps; of 10 updates they are 5 "
            "and 3");
  EXPECT_EQ(Intervals::of(settled(flags), 8).save, 4);
}

TEST(Flags, TheBatchIsSearchedOnlyIfItMayBeLowered) {
  EXPECT_TRUE(settled({"--auto_find_batch_size", "--per_device_train_batch_size", "64"}).auto_find_batch_size);
  EXPECT_EQ(error_of([] {
              settled({"--auto_find_batch_size", "--global_batch_size", "8"});
            }),
            "--auto_find_batch_size lowers --per_device_train_batch_size, so it excludes --global_batch_size 8");
  EXPECT_EQ(error_of([] {
              settled({"--auto_find_batch_size", "--auto_shard"});
            }),
            "--auto_find_batch_size and --auto_shard exclude each other: a layout is chosen for a given batch");
  TrainingArguments of_trainer;
  of_trainer.program = TrainingProgram::kModel;
  of_trainer.auto_find_batch_size = true;
  EXPECT_EQ(error_of([&] { of_trainer.check(); }),
            "--auto_find_batch_size: only the training programs plan their memory; a Trainer is given a model");
}

TEST(Flags, InitializationIsAlwaysDeferred) {
  EXPECT_TRUE(settled({"--deferred_init"}).deferred_init);
  EXPECT_TRUE(settled({"--deferred_init", "true"}).deferred_init);
  EXPECT_EQ(error_of([] {
              settled({"--deferred_init", "false"});
            }),
            "--deferred_init false: parameters have no values before their first use, and each rank creates only its "
            "shards; there is no other way, so leave the flag out");
}

// ---- --fsdp_config and Accelerate's file ----------------------------------------------------------------------------------

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
  const TrainingArguments a = settled({"--config_file", path});
  EXPECT_TRUE(a.bf16);
  EXPECT_EQ(a.fsdp + "/" + a.mesh + "/" + a.tensor_parallel, "true/fsdp=3,model=2/model");
  EXPECT_EQ(a.expected_ranks, 6);
  const FsdpConfig config = FsdpConfig::of(a);
  EXPECT_EQ(config.transformer_layer_cls_to_wrap, (std::vector<std::string>{"GPT2MLP"}));
  EXPECT_EQ(config.reshard_after_forward, false);
  const TrainingArguments own = settled({"--config_file", path, "--mesh", "data=4", "--bf16", "false"});
  EXPECT_EQ(own.mesh, "data=4");
  EXPECT_FALSE(own.bf16);
}

TEST(AccelerateConfig, WhatCannotBeDoneIsAnError) {
  const TemporaryFolder folder;
  const auto error = [&](const char* text) {
    return error_of([&] { settled({"--config_file", folder.write("a.yaml", text)}); });
  };
  EXPECT_NE(error("distributed_type: DEEPSPEED\n").find("distributed_type DEEPSPEED is not there; use FSDP"),
            std::string::npos);
  EXPECT_NE(error("mixed_precison: bf16\n").find("unknown key \"mixed_precison\"; did you mean \"mixed_precision\"?"),
            std::string::npos);
  EXPECT_NE(error("mixed_precision: fp8\n").find("mixed_precision must be no, bf16 or fp16, got fp8"),
            std::string::npos);
}

FsdpConfig config_of(const char* json) { return FsdpConfig::from_json(JsonObject::parse(json, "f.json")); }

TEST(FsdpConfig, ReadsAcceleratesKeys) {
  EXPECT_EQ(config_of(R"({"fsdp_sharding_strategy": "HYBRID_SHARD_ZERO2"})").reshard_after_forward, false);
  EXPECT_TRUE(config_of(R"({"fsdp_sharding_strategy": 4})").hybrid);
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
            "f.json: cp_size: sequences are not sharded by this key; use tp_size");
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
