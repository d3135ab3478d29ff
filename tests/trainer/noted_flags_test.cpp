// SPDX-License-Identifier: Apache-2.0
// Flags without effect beside other flags, and values that Tessera does not have.
#include <gtest/gtest.h>

#include "support/error_of.h"
#include "tessera/trainer/arguments.h"
#include "tessera/trainer/programs.h"

namespace tessera::trainer {
namespace {

using ::tessera::testing::error_of;
using Words = std::vector<std::string>;

TrainingArguments parsed_with(Words flags, TrainingArguments standard = {}) {
  flags.insert(flags.begin(), "program");
  std::vector<const char*> words;
  for (const std::string& flag : flags) words.push_back(flag.c_str());
  return *parse_training_arguments(static_cast<int>(words.size()), words.data(), "program", "", std::move(standard));
}

Words with_text(Words flags) {
  flags.insert(flags.begin(), {"--config_name", "c.json", "--train_file", "t.txt"});
  return flags;
}
Words notes_of(const Words& flags) { return parsed_with(with_text(flags)).notes; }
std::string error_with(const Words& flags) {
  return error_of([&] { parsed_with(with_text(flags)); });
}

TEST(NotedFlags, ValuesOfFlagsWithoutEffectAreComparedWithHuggingFacesDefaults) {
  EXPECT_EQ(notes_of({"--fp16_opt_level", "O2", "--ddp_bucket_cap_mb", "25", "--dataloader_pin_memory", "false",
                      "--eval_accumulation_steps", "2", "--torch_empty_cache_steps", "2", "--use_ipex"}),
            (Words{"--fp16_opt_level O2 has no effect: there is one implementation",
                   "--ddp_bucket_cap_mb 25 has no effect: the partitioner combines collectives",
                   "--dataloader_pin_memory false has no effect: batches already are where the ranks compute",
                   "--eval_accumulation_steps 2 has no effect: losses are added up on the ranks",
                   "--torch_empty_cache_steps 2 has no effect: memory is planned before the first step",
                   "--use_ipex true has no effect: oneDNN is always used"}));
  EXPECT_EQ(notes_of({"--fp16_opt_level", "O1", "--ddp_bucket_cap_mb", "None", "--dataloader_pin_memory", "True",
                      "--eval_accumulation_steps", "None", "--use_ipex", "0", "--local_rank", "-1", "--ray_scope",
                      "last", "--use_fast_tokenizer", "yes", "--torch_compile", "off"}),
            Words());
}

TEST(NotedFlags, FlagsThatAreTrueByDefaultHaveANegatedForm) {
  EXPECT_EQ(notes_of({"--no_remove_unused_columns", "--no_dataloader_pin_memory", "--no-skip-memory-metrics"}),
            (Words{"--remove_unused_columns false has no effect: columns without a use are not read",
                   "--dataloader_pin_memory false has no effect: batches already are where the ranks compute",
                   "--skip_memory_metrics false has no effect: the planned memory is always reported"}));
  for (const char* flag :
       {"average_tokens_across_devices", "dataloader_in_order", "eval_do_concat_batches", "keep_linebreaks",
        "log_on_each_node", "logging_nan_inf_filter", "save_safetensors", "use_fast_tokenizer"})
    EXPECT_EQ(notes_of({std::string("--no_") + flag}).size(), 1U) << flag;
}

TEST(NotedFlags, TorchDtypeIsAnotherNameOfDtype) {
  EXPECT_EQ(parsed_with(with_text({"--torch_dtype", "float64"})).dtype, "float64");
  for (const char* flag : {"--torch_dtype", "--dtype"}) {
    EXPECT_EQ(parsed_with(with_text({flag, "auto"})).dtype, "float32");
    EXPECT_EQ(notes_of({flag, "float32"}), Words());
    EXPECT_EQ(error_with({flag, "bfloat16"}),
              fmt::format("{} bfloat16: weights are stored in float32 or float64; to compute in bfloat16, give --bf16",
                          flag));
  }
  EXPECT_EQ(error_with({"--torch_dtype", "float64", "--bf16"}), "--bf16 and --dtype float64 exclude each other");
}

TEST(NotedFlags, FlagsOfFsdpNeedFsdp) {
  const auto expected = [](const char* flag) {
    return fmt::format("{} without --fsdp has no effect; add --fsdp full_shard", flag);
  };
  for (const auto& [flag, value] :
       std::initializer_list<std::pair<const char*, const char*>>{{"--fsdp_config", "f.json"},
                                                                  {"--fsdp_transformer_layer_cls_to_wrap", "X"},
                                                                  {"--fsdp_min_num_params", "100"}}) {
    EXPECT_EQ(error_with({flag, value}), expected(flag));
    EXPECT_EQ(error_with({flag, value, "--fsdp", "false"}), expected(flag));
    EXPECT_EQ(error_with({flag, value, "--fsdp", "full_shard"}), "no error");
  }
  EXPECT_EQ(error_with({"--fsdp_min_num_params", "100", "--auto_shard"}), "no error") << "the layout may have FSDP";
}

TEST(NotedFlags, SavesAndEvaluationsThatDoNotHappenAreNoted) {
  EXPECT_EQ(notes_of({"--save_steps", "1", "--save_strategy", "steps", "--save_total_limit", "2", "--save_only_model"}),
            (Words{"--save_strategy steps has no effect without --output_dir: nothing is saved",
                   "--save_steps 1 has no effect without --output_dir: nothing is saved",
                   "--save_total_limit 2 has no effect without --output_dir: nothing is saved",
                   "--save_only_model true has no effect without --output_dir: nothing is saved"}));
  EXPECT_EQ(notes_of({"--save_strategy", "no", "--save_only_model", "false"}), Words());
  EXPECT_EQ(notes_of({"--save_steps", "1", "--save_total_limit", "2", "--output_dir", "o"}), Words());
  EXPECT_EQ(notes_of({"--save_steps", "1", "--save_strategy", "epoch", "--output_dir", "o"}),
            Words{"--save_steps 1 has no effect with --save_strategy epoch"});
  EXPECT_EQ(notes_of({"--eval_steps", "3"}),
            Words{"--eval_steps 3 has no effect without --eval_strategy: no update is evaluated"});
  EXPECT_EQ(notes_of({"--eval_steps", "3", "--eval_strategy", "epoch"}),
            Words{"--eval_steps 3 has no effect with --eval_strategy epoch"});
  EXPECT_EQ(notes_of({"--eval_steps", "3", "--eval_strategy", "steps"}), Words());
}

TEST(NotedFlags, TheNumberOfUpdatesTakesPrecedenceOverEpochs) {
  EXPECT_EQ(notes_of({"--num_train_epochs", "2", "--max_steps", "5"}),
            Words{"--num_train_epochs 2 has no effect: --max_steps 5 is the number of updates"});
  EXPECT_EQ(notes_of({"--num_train_epochs", "2", "--max_steps", "-1"}), Words());
  EXPECT_EQ(notes_of({"--max_steps", "5"}), Words());
}

TEST(NotedFlags, SettingsThatTheOptimizerDoesNotUseAreNoted) {
  EXPECT_EQ(notes_of({"--adam_beta1", "0.5", "--optim", "sgd"}),
            Words{"--adam_beta1 0.5 has no effect: the optimizer sgd does not use it"});
  EXPECT_EQ(notes_of({"--adam_beta2", "0.5", "--adam_epsilon", "1e-6", "--adafactor"}),
            (Words{"--adam_beta2 0.5 has no effect: the optimizer adafactor does not use it",
                   "--adam_epsilon 1e-06 has no effect: the optimizer adafactor does not use it"}));
  EXPECT_EQ(notes_of({"--adam_beta1", "0.5", "--adam_epsilon", "1e-6", "--optim", "lion"}),
            Words{"--adam_epsilon 1e-06 has no effect: the optimizer lion does not use it"});
  for (const char* optim : {"adamw_torch", "adamw_8bit", "adamax", "nadam", "radam", "muon"})
    EXPECT_EQ(notes_of({"--adam_beta1", "0.5", "--adam_epsilon", "1e-6", "--optim", optim}), Words()) << optim;
  EXPECT_EQ(parsed_with({"--fake_data", "--momentum", "0.5", "--optim", "lion"}, image_defaults()).notes,
            Words{"--momentum 0.5 has no effect: only the optimizer sgd uses it"});
}

TEST(NotedFlags, AnOptimizerThatComputesTheRateExcludesALearningRate) {
  const Words relative = {"--optim", "adafactor", "--optim_args", "relative_step=true"};
  const auto with = [&](Words more) {
    more.insert(more.end(), relative.begin(), relative.end());
    return more;
  };
  EXPECT_EQ(error_with(with({"--learning_rate", "0.001"})),
            "--learning_rate 0.001 and --optim_args relative_step=true exclude each other: with relative_step, the "
            "optimizer adafactor computes the learning rate from the number of the update");
  EXPECT_EQ(notes_of(with({})), Words());
  EXPECT_EQ(notes_of(with({"--lr_scheduler_type", "cosine"})),
            Words{"--lr_scheduler_type cosine has no effect: with relative_step, the learning rate follows from the "
                  "number of the update"});
  EXPECT_EQ(error_with({"--optim", "adafactor", "--learning_rate", "0.001"}), "no error");
}

TEST(NotedFlags, ErrorsOfOptimizerArgumentsNameTheirFlag) {
  EXPECT_EQ(error_with({"--optim_args", "state_dtype=int4"}),
            "--optim_args: unknown format of optimizer state int4; did you mean \"int8\"?");
  EXPECT_EQ(error_with({"--optim", "muon", "--optim_args", "ns_dtype=int8"}),
            "--optim_args: ns_dtype must be bfloat16 or float32, got int8");
  EXPECT_TRUE(error_with({"--optim_args", "beta1=x"}).starts_with("--optim_args: beta1 must be "));
  EXPECT_TRUE(
      error_with({"--lr_scheduler_kwargs", "power=2"}).starts_with("--lr_scheduler_kwargs: the schedule linear"));
}

TEST(NotedFlags, FullDeterminismTellsWhatItDoesNotPromise) {
  EXPECT_EQ(notes_of({"--full_determinism"}), Words());
  EXPECT_EQ(notes_of({"--bf16", "--optim", "muon", "--mesh", "data=1,model=2", "--tensor_parallel", "model"}), Words());
  const std::string rest = ": the last bits may differ between meshes, because ";
  EXPECT_EQ(notes_of({"--full_determinism", "--bf16", "--optim", "muon", "--mesh", "data=1,model=2",
                      "--tensor_parallel", "model"}),
            (Words{"--full_determinism with --bf16" + rest + "values may be rounded at other places",
                   "--full_determinism with --optim muon" + rest + "its updates add over shards",
                   "--full_determinism with --tensor_parallel model" + rest + "tensor parallelism divides sums"}));
}

TEST(NotedFlags, TheNumberOfUpdatesIsLimited) {
  EXPECT_EQ(error_with({"--num_train_epochs", "1e30"}),
            "--num_train_epochs must be above 0 and at most 1e+15, got 1e+30");
  EXPECT_NE(error_with({"--num_train_epochs", "nan"}), "no error");
  TrainingArguments many;
  many.num_train_epochs = 1e15;
  EXPECT_EQ(many.total_steps(1), 1'000'000'000'000'000);
  EXPECT_EQ(error_of([&] { (void)many.total_steps(20); }),
            "--num_train_epochs 1e+15 gives 2e+16 updates; a run has at most 1e+15");
}

TEST(NotedFlags, UnknownFlagsAndThoseOfHuggingFaceAreNamedTogether) {
  EXPECT_EQ(error_with({"--past_index", "1", "--max_stepz", "3", "--qqqqqqqqqqqq", "--deepspeed", "x"}),
            "unknown options --max_stepz (did you mean \"--max_steps\"?), --qqqqqqqqqqqq; --help lists the options\n"
            "flags of Hugging Face's programs do not exist here: --past_index (no state is carried between batches), "
            "--deepspeed (use --fsdp full_shard for ZeRO-3, --fsdp shard_grad_op for ZeRO-2)");
}

}  // namespace
}  // namespace tessera::trainer
