// SPDX-License-Identifier: Apache-2.0
// The flags of the other programs, and metrics by name.
#include "tessera/trainer/task.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <tuple>

#include "flags/config_overrides.h"
#include "frontend/on_ranks.h"
#include "support/temporary_folder.h"
#include "tasks/bert_parts.h"
#include "tessera/checkpoint/pretrained.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/trainer/programs.h"
#include "tessera/trainer/trainer_state.h"
#include "trainer/runs/small_run.h"

namespace tessera::trainer {
namespace {

using ::tessera::testing::error_of;

TrainingArguments parsed_for(TrainingArguments arguments, const std::vector<std::string>& flags) {
  ArgumentParser parser("program", "");
  arguments.add_flags(parser);
  EXPECT_TRUE(parser.parse(flags));
  return arguments;
}

// The command line of Hugging Face's page on PyTorch/XLA, without the launcher.
TEST(ProgramFlags, TheSourcesBertCommandLineIsAccepted) {
  const auto a = parsed_for(mlm_defaults(), {"--dataset_name",
                                             "wikitext",
                                             "--dataset_config_name",
                                             "wikitext-103-raw-v1",
                                             "--max_seq_length",
                                             "512",
                                             "--pad_to_max_length",
                                             "--logging_dir",
                                             "./tensorboard-metrics",
                                             "--cache_dir",
                                             "./cache_dir",
                                             "--do_train",
                                             "--do_eval",
                                             "--output_dir",
                                             "language-modeling",
                                             "--overwrite_output_dir",
                                             "--overwrite_cache",
                                             "--tpu_metrics_debug",
                                             "--model_name_or_path",
                                             "bert-large-uncased",
                                             "--num_train_epochs",
                                             "3",
                                             "--per_device_train_batch_size",
                                             "8",
                                             "--per_device_eval_batch_size",
                                             "8",
                                             "--save_steps",
                                             "500000"});
  a.check();
  EXPECT_EQ(a.max_seq_length, 512);
  EXPECT_EQ(a.save_steps, 500000);
  EXPECT_EQ(a.logging_dir, "./tensorboard-metrics");
  EXPECT_TRUE(a.pad_to_max_length && a.tpu_metrics_debug && a.overwrite_cache && a.do_train && a.do_eval);
}

TEST(ProgramFlags, TheFlagsOfPyTorchXlasImageNetAreAccepted) {
  const auto a =
      parsed_for(image_defaults(), {"--fake_data", "--batch_size", "16", "--num_epochs", "2", "--lr", "0.2"});
  a.check();
  EXPECT_EQ(a.micro_batch_rows(2), 32);
  EXPECT_EQ(a.num_train_epochs, 2);
  EXPECT_EQ(a.learning_rate, 0.2);
  EXPECT_EQ(a.optim, "sgd");
}

TEST(ProgramFlags, FlagsOfOtherProgramsAreErrors) {
  TrainingArguments arguments = image_defaults();
  ArgumentParser parser("train_imagenet", "");
  arguments.add_flags(parser);
  EXPECT_NE(error_of([&] { parser.parse({"--block_size", "4"}); }).find("block_size"), std::string::npos);
  EXPECT_NE(error_of([] {
              parsed_for(image_defaults(), {"--fake_data", "--mesh", "data=2", "--spatial_sharding", "rows"}).check();
            }).find("--spatial_sharding: --mesh data=2 has no axis \"rows\""),
            std::string::npos);
  EXPECT_EQ(error_of([] {
              parsed_for(image_defaults(), {"--fake_data", "--model", "resnet19"}).check();
            }),
            "--model resnet19 is not known; give resnet18, resnet50, tiny, or the config.json of an image classifier");
}

TEST(ProgramFlags, LengthBucketsAreAListForSamplesOfDifferentLengths) {
  const auto error = [](std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--config_name", "tiny", "--train_file", "text.txt"});
    return error_of([&] { parsed_for(mlm_defaults(), flags).check(); });
  };
  EXPECT_EQ(error({"--line_by_line", "--length_buckets", "8,16"}), "no error");
  EXPECT_EQ(error({"--line_by_line", "--length_buckets", "8,16", "--max_seq_length", "12"}),
            "--length_buckets: 16 is more than --max_seq_length 12");
  EXPECT_NE(error({"--length_buckets", "8,16"}).find("--length_buckets needs --line_by_line"), std::string::npos);
  EXPECT_NE(error({"--line_by_line", "--pad_to_max_length", "--length_buckets", "8"})
                .find("--length_buckets and --pad_to_max_length exclude each other"),
            std::string::npos);
  EXPECT_NE(error({"--line_by_line", "--length_buckets", "16,8"})
                .find("--length_buckets: the lengths must be at least 1 and increase, got \"16,8\""),
            std::string::npos);
}

TEST(ConfigOverrides, ReplaceValuesOfEveryConfiguration) {
  TrainingArguments a = parsed_for(mlm_defaults(), {"--config_name", "tiny", "--config_overrides",
                                                    "vocab_size=300,hidden_act=relu,hidden_dropout_prob=0.25"});
  const nn::BertConfig config = bert_config(a, "");
  EXPECT_EQ(config.vocab_size, 300);
  EXPECT_EQ(config.hidden_act, "relu");
  EXPECT_EQ(config.hidden_dropout_prob, 0.25);
  EXPECT_EQ(config.hidden_size, 32) << "of tiny";
  a.config_overrides = "vocab_sise=300";
  EXPECT_EQ(error_of([&] { (void)bert_config(a, ""); }),
            "tiny with --config_overrides vocab_sise=300: unknown key \"vocab_sise\"; did you mean \"vocab_size\"?");
  a.config_overrides = "vocab_size";
  EXPECT_EQ(error_of([&] { (void)bert_config(a, ""); }), "\"vocab_size\" must have the form key=value");
}

TEST(ConfigOverrides, AreNamedIfTheVocabularyIsTooSmall) {
  const ::tessera::testing::TemporaryFolder folder;
  TrainingArguments a = parsed_for(mlm_defaults(), {"--config_name", "tiny"});
  const auto error = [&] { return error_of([&] { check_vocabulary_size(a, "bytes", 260, 256); }); };
  const std::string problem = "the tokenizer bytes has 260 tokens, but the model's vocab_size is 256; ";
  EXPECT_EQ(error(), problem + "make it 260 or more with --config_overrides vocab_size=260");
  EXPECT_EQ(bert_config(a, "").vocab_size, 260) << "enough for the default tokenizer";
  a.config_name = folder.write("bert.json", "{}");
  EXPECT_EQ(error(),
            problem + "make it 260 or more in " + a.config_name + ", or with --config_overrides vocab_size=260");
  a.config_name.clear();
  a.model_name_or_path = "bert";
  EXPECT_EQ(error(), problem + "give the tokenizer with which the model was trained: --tokenizer_name");
  EXPECT_EQ(error_of([&] { check_vocabulary_size(a, "bytes", 256, 256); }), "no error");
}

TEST(Metrics, AreFoundByName) {
  const Metrics metrics{0.5, {{"accuracy", 0.75}}, ""};
  EXPECT_EQ(metrics.find(""), 0.5);
  EXPECT_EQ(metrics.find("eval_loss"), 0.5);
  EXPECT_EQ(metrics.find("eval_accuracy"), 0.75);
  EXPECT_EQ(metrics.find("perplexity"), std::nullopt);
  EXPECT_TRUE(greater_is_better("eval_accuracy"));
  EXPECT_FALSE(greater_is_better("loss"));
}

TrainingArguments read_image_flags(const std::vector<std::string>& flags) {
  std::vector<const char*> words = {"train_imagenet"};
  for (const std::string& flag : flags) words.push_back(flag.c_str());
  return *parse_training_arguments(static_cast<int>(words.size()), words.data(), words[0], "", image_defaults());
}

// Hugging Face's users expect files in the type of those that they gave.
TEST(LoadWeights, AnotherTypeThanThatOfTheFolderIsNoted) {
  const FreshRank rank;
  const ::tessera::testing::TemporaryFolder folder;
  nn::GPT2LMHeadModel model(tiny_config());
  save_pretrained(model, folder.file("f64"));
  nn::GPT2LMHeadModel half(tiny_config());
  half.to(DType::kBF16);
  save_pretrained(half, folder.file("bf16"));
  TrainingArguments arguments = quiet(1);
  const auto notes_of = [&](const std::string& name) {
    TrainingSetup setup;
    setup.network = &model;
    load_weights(arguments, folder.file(name), setup);
    return setup.notes;
  };
  EXPECT_EQ(notes_of("f64"), std::vector<std::string>());
  EXPECT_EQ(notes_of("bf16"), std::vector<std::string>{"the weights in " + folder.file("bf16") +
                                                       " are bf16; this run trains and saves them as f64"});
  arguments.resume_from_checkpoint = "true";  // whose weights replace those of the folder
  EXPECT_EQ(notes_of("bf16"), std::vector<std::string>());
}

TEST(ProgramFlags, AnIntervalOfSavesIsAStrategy) {
  EXPECT_EQ(read_image_flags({"--fake_data"}).save_strategy, "no");
  EXPECT_EQ(read_image_flags({"--fake_data", "--save_steps", "3"}).save_strategy, "steps");
  EXPECT_EQ(read_image_flags({"--fake_data", "--save_steps", "3", "--save_strategy", "no"}).save_strategy, "no");
}

TEST(Metrics, AGivenDirectionReplacesThatOfTheMetric) {
  const ::tessera::testing::TemporaryFolder folder;
  for (const auto& [metric, more, is_greater] :
       std::initializer_list<std::tuple<const char*, std::vector<std::string>, bool>>{
           {"accuracy", {}, true},
           {"accuracy", {"--greater_is_better", "false"}, false},
           {"accuracy", {"--no_greater_is_better"}, false},
           {"accuracy", {"--greater_is_better"}, true},
           {"loss", {}, false},
           {"loss", {"--greater_is_better"}, true}}) {
    std::vector<std::string> flags = {"--fake_data", "--output_dir",    folder.path(), "--eval_strategy",
                                      "epoch",       "--save_strategy", "epoch",       "--metric_for_best_model",
                                      metric};
    flags.insert(flags.end(), more.begin(), more.end());
    const TrainingArguments given = read_image_flags(flags);
    EXPECT_EQ(wants_greater(given), is_greater) << metric << ::testing::PrintToString(more);
    // training_args.json keeps the direction, and that it was not given.
    const std::string file = folder.file("training_args.json");
    given.json().save(file);
    EXPECT_EQ(wants_greater(read_image_flags({file})), is_greater) << metric << ::testing::PrintToString(more);
    const TrainingArguments other = read_image_flags({file, "--metric_for_best_model", "loss"});
    EXPECT_TRUE(!more.empty() || !wants_greater(other)) << metric;
  }
  // Programs that set the fields.
  TrainingArguments arguments;
  arguments.metric_for_best_model = "accuracy";
  EXPECT_TRUE(wants_greater(arguments));
  arguments.greater_is_better_is_given = true;
  EXPECT_FALSE(wants_greater(arguments));
}

TEST(LogEntry, IsOneLineOfJson) {
  const LogEntry entry{.step = 7, .epoch = 0.5, .loss = 1.25};
  const std::string line = json_line(entry);
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_EQ(JsonObject::parse(line).keys(), (std::vector<std::string>{"epoch", "loss", "step"}));
}

}  // namespace
}  // namespace tessera::trainer
