// SPDX-License-Identifier: Apache-2.0
// The flags of the other programs, and metrics by name.
#include "tessera/trainer/task.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/temporary_folder.h"
#include "tessera/trainer/programs.h"
#include "tessera/trainer/trainer_state.h"

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

TEST(LogEntry, IsOneLineOfJson) {
  const LogEntry entry{.step = 7, .epoch = 0.5, .loss = 1.25};
  const std::string line = json_line(entry);
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_EQ(JsonObject::parse(line).keys(), (std::vector<std::string>{"epoch", "loss", "step"}));
}

}  // namespace
}  // namespace tessera::trainer
