// SPDX-License-Identifier: Apache-2.0
#include "tessera/trainer/arguments.h"

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace tessera::trainer {
namespace {

using ::tessera::testing::error_of;

TrainingArguments parsed(std::vector<std::string> flags) {
  TrainingArguments arguments;
  ArgumentParser parser("run_clm", "");
  arguments.add_flags(parser);
  EXPECT_TRUE(parser.parse(flags));
  return arguments;
}

std::string check_error(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {"--config_name", "c.json", "--train_file", "t.txt"});
  return error_of([&] { parsed(flags).check(); });
}

TEST(TrainingArguments, AcceptOverridesWithTheKeysOfMmf) {
  TrainingArguments arguments;
  ArgumentParser parser("run_clm", "");
  arguments.add_flags(parser);
  ASSERT_TRUE(parser.parse({"config=c.json", "dataset=wikitext", "model=gpt2", "training.batch_size=12",
                            "training.log_interval=3", "training.experiment_name=e", "training.max_updates=1500",
                            "training.device=xla", "distributed.world_size=8", "optimizer.params.lr=0.25"}));
  EXPECT_EQ(arguments.config_name + arguments.dataset_name + arguments.model_type, "c.jsonwikitextgpt2");
  EXPECT_EQ(arguments.global_batch_size, 12);
  EXPECT_EQ(arguments.logging_steps, 3);
  EXPECT_EQ(arguments.run_name, "e");
  EXPECT_EQ(arguments.max_steps, 1500);
  EXPECT_EQ(arguments.learning_rate, 0.25);
  EXPECT_EQ(parser.notes(), std::vector<std::string>{
                                "--distributed.world_size 8 has no effect: ranks come from mpirun or --num_cores"});
  EXPECT_EQ(error_of([] { parsed({"training.batchsize=12"}); }),
            "unknown override training.batchsize; did you mean \"training.batch_size\"?");
}

TEST(TrainingArguments, NumCoresIsAnotherNameOfVirtualRanks) {
  EXPECT_EQ(parsed({"--num_cores", "3"}).virtual_ranks, 3);
  EXPECT_EQ(parsed({"--num-cores=2"}).virtual_ranks, 2);
}

TEST(TrainingArguments, TheConfigurationHasTheFinalValuesInGroupsWithTheKeysOfMmf) {
  const std::string text =
      parsed({"training.max_updates=1500", "config=c.json", "--max_steps", "3", "--bf16"}).configuration();
  EXPECT_EQ(text.substr(0, text.find("  --tokenizer_name")),
            "model and data\n  --config_name c.json  (config)\n  --model_type gpt2  (model)\n");
  for (const char* line : {"\nbatches and length\n", "\n  --max_steps 1500  (training.max_updates)\n",
                           "\noptimizer\n  --optim adamw_torch\n", "\n  --bf16 true\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  EXPECT_EQ(text.find("--mesh"), std::string::npos) << "no value: " << text;
}

TEST(TrainingArguments, AFileOfTheirValuesGivesTheSameArguments) {
  const ::tessera::testing::TemporaryFolder folder;
  for (const auto program : {TrainingProgram::kClm, TrainingProgram::kMlm, TrainingProgram::kClassification,
                             TrainingProgram::kImages, TrainingProgram::kModel}) {
    TrainingArguments written;
    written.program = program;
    written.learning_rate = 1.0 / 3;
    written.global_batch_size = 12;
    written.fsdp = "full_shard auto_wrap";
    written.fsdp_config = R"({"min_num_params": 5})";
    written.greater_is_better = true;
    const std::string file = folder.file("training_args.json");
    written.json().save(file);
    TrainingArguments read;
    read.program = program;
    ArgumentParser parser("", "");
    read.add_flags(parser);
    ASSERT_TRUE(parser.parse({file}));
    EXPECT_EQ(read.values(), written.values());
    EXPECT_FALSE(parser.was_given("tokenizer_name")) << "a model's tokenizer would not be used";
    EXPECT_FALSE(parser.has_overrides());
  }
}

// ---- training_args.json ---------------------------------------------------------------------------------------------------

TrainingArguments parsed_by(const std::string& program, TrainingProgram kind, const std::vector<std::string>& flags) {
  TrainingArguments standard;
  standard.program = kind;
  std::vector<const char*> words = {program.c_str()};
  for (const std::string& flag : flags) words.push_back(flag.c_str());
  return *parse_training_arguments(static_cast<int>(words.size()), words.data(), program, "", standard);
}

// The arguments of a run that is started with the file of a run with the flags `before`, and with the flags `after`.
TrainingArguments again(std::vector<std::string> before, std::vector<std::string> after,
                        TrainingProgram program = TrainingProgram::kClm) {
  const ::tessera::testing::TemporaryFolder folder;
  const std::string file = folder.file("training_args.json");
  before.insert(before.begin(), {"--config_name", "c.json"});
  parsed_by("run", program, before).json().save(file);
  after.insert(after.begin(), file);
  return parsed_by("run", program, after);
}

TEST(TrainingArguments, AFlagAfterAFileReplacesThoseThatItExcludes) {
  const std::vector<std::string> text = {"--train_file", "t.txt"};
  const auto with = [](std::vector<std::string> flags, const std::vector<std::string>& more) {
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  };
  const TrainingArguments global = again(with(text, {"--per_device_train_batch_size", "4"}), {"training.batch_size=2"});
  EXPECT_TRUE(global.global_batch_size == 2 && !global.per_device_train_batch_size);
  const TrainingArguments local =
      again(with(text, {"--global_batch_size", "2"}), {"--per_device_train_batch_size", "4"});
  EXPECT_TRUE(local.per_device_train_batch_size == 4 && !local.global_batch_size);
  EXPECT_EQ(again(text, {"--fake_data"}).train_file, "");
  EXPECT_EQ(again(text, {"--fake_data", "false"}).train_file, "t.txt");
  EXPECT_FALSE(again({"--fake_data"}, text).fake_data);
  EXPECT_EQ(again(text, {"--dataset_name", "d"}).train_file, "");
  EXPECT_FALSE(again(with(text, {"--bf16"}), {"--dtype", "float64"}).bf16);
  EXPECT_TRUE(again(with(text, {"--bf16"}), {"--dtype", "float32"}).bf16);
  EXPECT_EQ(again(with(text, {"--optim", "sgd"}), {"--adafactor"}).optim, "adafactor");
  EXPECT_EQ(again(with(text, {"--adafactor"}), {"--optim", "sgd"}).optim, "sgd");
  EXPECT_EQ(again(with(text, {"--group_by_length"}), {"--train_sampling_strategy", "random"}).train_sampling_strategy,
            "random");
  EXPECT_EQ(again(with(text, {"--mesh", "data=2", "--fsdp", "full_shard"}), {"--auto_shard"}).mesh, "");
  EXPECT_EQ(again(with({"--task_name", "rte"}, text), {"--data_dir", "d"}, TrainingProgram::kClassification).train_file,
            "");
  EXPECT_EQ(error_of([&] {
              again(text, {"--per_device_train_batch_size", "4", "--global_batch_size", "2"});
            }),
            "--per_device_train_batch_size and --global_batch_size exclude each other: the first is the number of "
            "samples for each data shard, the second that for all data shards");
}

TEST(TrainingArguments, TheirFileNeitherContinuesTheRunNorReplacesItsOutput) {
  TrainingArguments a;
  a.program = TrainingProgram::kClassification;
  a.output_dir = "out";
  a.overwrite_output_dir = true;
  a.task_name = "mrpc";
  a.train_file = "glue/MRPC/train.tsv";
  a.derived_flags = {"train_file"};
  for (const auto& [from, written] : std::initializer_list<std::pair<const char*, const char*>>{
           {"true", ""}, {"out/checkpoint-2", ""}, {"base/checkpoint-2", "base/checkpoint-2"}}) {
    a.resume_from_checkpoint = from;
    EXPECT_EQ(a.json().text("resume_from_checkpoint"), written);
  }
  EXPECT_EQ(a.json().text("overwrite_output_dir"), "false");
  EXPECT_TRUE(a.json().is_null("train_file")) << "another --task_name after the file would read these texts";
  EXPECT_EQ(a.json().text("task_name"), "mrpc");
}

TEST(TrainingArguments, TheirFileIsOneOfItsProgram) {
  const ::tessera::testing::TemporaryFolder folder;
  const std::vector<std::string> flags = {"--config_name", "c.json", "--train_file", "t.txt"};
  const std::string file = folder.file("training_args.json");
  parsed_by("run_clm", TrainingProgram::kClm, flags).json().save(file);
  EXPECT_EQ(parsed_by("run_clm", TrainingProgram::kClm, {file}).train_file, "t.txt");
  EXPECT_EQ(error_of([&] { parsed_by("run_mlm", TrainingProgram::kMlm, {file}); }),
            file + ": has arguments of run_clm, but this program is run_mlm");
}

// ---- flags ----------------------------------------------------------------------------------------------------------------

TEST(TrainingArguments, DefaultsAreHuggingFaces) {
  const auto arguments = parsed({});
  EXPECT_EQ(arguments.learning_rate, 5e-5);
  EXPECT_EQ(arguments.num_train_epochs, 3);
  EXPECT_EQ(arguments.max_steps, -1);
  EXPECT_EQ(arguments.max_grad_norm, 1.0);
  EXPECT_EQ(arguments.weight_decay, 0.0);
  EXPECT_EQ(arguments.adam_beta1, 0.9);
  EXPECT_EQ(arguments.adam_beta2, 0.999);
  EXPECT_EQ(arguments.adam_epsilon, 1e-8);
  EXPECT_EQ(arguments.lr_scheduler_type, "linear");
  EXPECT_EQ(arguments.optim, "adamw_torch");
  EXPECT_EQ(arguments.seed, 42);
  EXPECT_EQ(arguments.logging_steps, 500);
  EXPECT_EQ(arguments.gradient_accumulation_steps, 1);
  EXPECT_EQ(arguments.validation_split_percentage, 5.0);
  EXPECT_EQ(arguments.micro_batch_rows(3), 24);
  EXPECT_EQ(arguments.label_smoothing_factor, 0);
  EXPECT_EQ(arguments.neftune_noise_alpha, std::nullopt);
}

TEST(TrainingArguments, EveryFlagOfACommandLineReachesItsField) {
  const auto a = parsed({"--config_name",
                         "g.json",
                         "--tokenizer_name",
                         "bpe:512",
                         "--train_file",
                         "t",
                         "--block_size",
                         "64",
                         "--global_batch_size",
                         "12",
                         "--gradient_accumulation_steps",
                         "2",
                         "--max_steps",
                         "7",
                         "--num_train_epochs",
                         "1.5",
                         "--learning_rate",
                         "1e-3",
                         "--weight_decay",
                         "0.1",
                         "--warmup_steps",
                         "10",
                         "--lr_scheduler_type",
                         "cosine",
                         "--max_grad_norm",
                         "0.5",
                         "--optim",
                         "sgd",
                         "--seed",
                         "1",
                         "--dtype",
                         "float64",
                         "--logging_steps",
                         "1",
                         "--logging_format",
                         "mmf",
                         "--output_dir",
                         "o",
                         "--mesh",
                         "data=2,model=-1",
                         "--fsdp",
                         "full_shard auto_wrap",
                         "--fsdp_config",
                         "f.json",
                         "--tensor_parallel",
                         "model",
                         "--dry_run",
                         "--virtual_ranks",
                         "4",
                         "--validation_split_percentage",
                         "10",
                         "--label_smoothing_factor",
                         "0.25",
                         "--neftune_noise_alpha",
                         "5",
                         "--text_column_name",
                         "body"});
  a.check();
  EXPECT_EQ(a.config_name + a.tokenizer_name + a.train_file + a.output_dir + a.fsdp_config, "g.jsonbpe:512tof.json");
  EXPECT_EQ(a.block_size + a.max_steps + a.seed + a.virtual_ranks, 64 + 7 + 1 + 4);
  EXPECT_EQ(a.logging_steps, 1);
  EXPECT_EQ(a.mesh + a.fsdp + a.tensor_parallel + a.optim + a.dtype + a.logging_format,
            "data=2,model=-1full_shard auto_wrapmodelsgdfloat64mmf");
  EXPECT_EQ(a.micro_batch_rows(5), 12);
  EXPECT_EQ(a.num_train_epochs + a.max_grad_norm + a.weight_decay, 1.5 + 0.5 + 0.1);
  EXPECT_EQ(a.label_smoothing_factor, 0.25);
  EXPECT_EQ(a.neftune_noise_alpha, 5);
  EXPECT_EQ(a.text_column_name, "body");
  EXPECT_TRUE(a.dry_run);
  EXPECT_FALSE(a.bf16);
}

TEST(TrainingArguments, ContradictionsAreNamed) {
  EXPECT_EQ(check_error({}), "no error");
  EXPECT_EQ(check_error({"--per_device_train_batch_size", "4", "--global_batch_size", "8"}),
            "--per_device_train_batch_size and --global_batch_size exclude each other: the first is the number of "
            "samples for each data shard, the second that for all data shards");
  EXPECT_EQ(check_error({"--bf16", "--dtype", "float64"}), "--bf16 and --dtype float64 exclude each other");
  EXPECT_EQ(check_error({"--fsdp_config", "f.json"}),
            "--fsdp_config without --fsdp has no effect; add --fsdp full_shard");
  EXPECT_EQ(check_error({"--block_size", "1"}), "--block_size must be at least 2, or 0, got 1");
  EXPECT_EQ(check_error({"--global_batch_size", "0"}), "--global_batch_size must be at least 1, got 0");
  EXPECT_EQ(check_error({"--max_eval_samples", "0"}), "--max_eval_samples must be at least 1, got 0");
  EXPECT_EQ(check_error({"--tokenizer_name", "gpt2"}),
            "--tokenizer_name gpt2 is not known; give bytes, bpe:N (trained on the text), a file (GPT-2's vocab.bpe or "
            "merges.txt, a tokenizer.json), the folder of one, or the name of a model in --cache_dir or $HF_HOME/hub");
  EXPECT_EQ(check_error({"--logging_format", "json"}), "--logging_format takes one of short, mmf, got \"json\"");
  EXPECT_EQ(check_error({"--max_steps", "0"}), "--max_steps must be at least 1, or -1, got 0");
  EXPECT_EQ(check_error({"--learning_rate", "-1"}), "--learning_rate must not be negative, got -1");
  EXPECT_EQ(check_error({"--adam_beta2", "1"}), "--adam_beta2 must be in [0, 1), got 1");
  EXPECT_EQ(check_error({"--label_smoothing_factor", "1"}), "--label_smoothing_factor must be in [0, 1), got 1");
  EXPECT_EQ(check_error({"--label_smoothing_factor", "-0.1"}), "--label_smoothing_factor must be in [0, 1), got -0.1");
  EXPECT_EQ(check_error({"--neftune_noise_alpha", "-5"}), "--neftune_noise_alpha must not be negative, got -5");
  EXPECT_EQ(check_error({"--fsdp", "full_shar"}), "--fsdp: unknown option \"full_shar\"; did you mean \"full_shard\"?");
  EXPECT_EQ(error_of([] { parsed({}).check(); }),
            "give --config_name, the config.json of a causal language model, or --model_name_or_path, a folder with "
            "config.json and model.safetensors");
  EXPECT_EQ(error_of([] {
              parsed({"--config_name", "c"}).check();
            }),
            "no text to train on: give --train_file, or --dataset_name with --cache_dir or TESSERA_DATA, or "
            "--fake_data");
}

TEST(TrainingArguments, FakeDataNeedsNoTextAndExcludesIt) {
  const auto a = parsed({"--config_name", "c", "--fake_data", "--fake_data_samples", "7"});
  a.check();
  EXPECT_TRUE(a.fake_data);
  EXPECT_EQ(a.fake_data_samples, 7);
  EXPECT_EQ(check_error({"--fake_data"}),
            "--fake_data and --train_file exclude each other: random tokens replace the text");
  const auto error_with = [](const std::string& flag, const std::string& value) {
    return error_of([&] { parsed({"--config_name", "c", "--fake_data", flag, value}).check(); });
  };
  EXPECT_EQ(error_with("--validation_file", "v.txt"),
            "--fake_data and --validation_file exclude each other: random tokens replace the text");
  EXPECT_EQ(error_with("--dataset_name", "wikitext"),
            "--fake_data and --dataset_name exclude each other: random tokens replace the text");
  EXPECT_EQ(error_with("--fake_data_samples", "0"), "--fake_data_samples must be from 1 to 1073741824, got 0");
}

TEST(TrainingArguments, StepsFollowFromEpochsAndAccumulation) {
  auto arguments = parsed({"--num_train_epochs", "2", "--gradient_accumulation_steps", "3"});
  EXPECT_EQ(arguments.total_steps(10), 8);  // in each epoch updates of 3, 3, 3 and 1 micro-batches
  EXPECT_EQ(arguments.total_steps(9), 6);
  EXPECT_EQ(arguments.total_steps(2), 2);
  EXPECT_EQ(arguments.total_steps(1), 2);
  arguments.num_train_epochs = 1.5;
  EXPECT_EQ(arguments.total_steps(10), 6);
  arguments.max_steps = 5;
  EXPECT_EQ(arguments.total_steps(10), 5);
  EXPECT_EQ(arguments.warmup_count(100), 0);
  arguments.warmup_steps = 0.055;
  EXPECT_EQ(arguments.warmup_count(100), 6);
  arguments.warmup_steps = 20;
  EXPECT_EQ(arguments.warmup_count(100), 20);
}

// As in Hugging Face's Trainer, an epoch that is only begun counts.
TEST(TrainingArguments, EpochsFollowFromStepsAndAccumulation) {
  auto arguments = parsed({"--num_train_epochs", "1.5", "--gradient_accumulation_steps", "3"});
  EXPECT_EQ(arguments.total_epochs(10), 2);  // four updates in each epoch
  for (const auto& [steps, epochs] : {std::pair{1, 1}, {4, 1}, {5, 2}, {8, 2}, {9, 3}}) {
    arguments.max_steps = steps;
    EXPECT_EQ(arguments.total_epochs(10), epochs) << steps;
  }
  EXPECT_EQ(arguments.total_epochs(1), 9);
}

}  // namespace
}  // namespace tessera::trainer
