// SPDX-License-Identifier: Apache-2.0
// --output_dir: what a run does not write over, which checkpoints it deletes, and the flags of the run that it continues.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "flags/changed_flags.h"
#include "frontend/on_ranks.h"
#include "run/output_folder.h"
#include "run/run_saver.h"
#include "support/system_limits.h"
#include "support/temporary_folder.h"

namespace tessera::trainer {
namespace {

using ::tessera::testing::error_of;
using ::tessera::testing::TemporaryFolder;
using Lines = std::vector<std::string>;

std::string error_of_folder(const TrainingArguments& arguments) {
  return error_of([&] { const OutputFolder output(arguments); });
}

TEST(OutputFolder, AModelIsNotWrittenOverUnasked) {
  const FreshRank rank;
  for (const char* name : {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"}) {
    const TemporaryFolder folder;
    (void)folder.write(name, "weights");
    TrainingArguments arguments;
    arguments.output_dir = folder.path();
    EXPECT_EQ(
        error_of_folder(arguments),
        folder.path() + " already contains a model (" + name +
            "), which the run would overwrite; give another --output_dir, or --overwrite_output_dir to overwrite it");
    TrainingArguments evaluation = arguments;
    evaluation.do_train = false;
    EXPECT_EQ(error_of_folder(evaluation), "no error");
    TrainingArguments resumed = arguments;
    resumed.resume_from_checkpoint = "other/checkpoint-1";
    EXPECT_EQ(error_of_folder(resumed), "no error");
    arguments.overwrite_output_dir = true;
    EXPECT_EQ(error_of_folder(arguments), "no error");
  }
}

TEST(OutputFolder, AConfigurationOrATokenizerIsNoModel) {
  const FreshRank rank;
  const TemporaryFolder folder;
  for (const char* name : {"config.json", "vocab.bpe", "tokenizer.json"}) (void)folder.write(name, "{}");
  TrainingArguments arguments;
  arguments.output_dir = folder.path();
  EXPECT_EQ(error_of_folder(arguments), "no error");
}

TEST(OutputFolder, ASecondRunIsRefusedAndAFolderWithoutLockIsNamed) {
  const FreshRank rank;
  const TemporaryFolder folder;
  TrainingArguments arguments;
  arguments.output_dir = folder.path();
  const OutputFolder first(arguments);
  EXPECT_EQ(error_of_folder(arguments),
            "another run uses " + folder.path() + "; give another --output_dir, or wait for its end");
  const std::string other = folder.file("other");
  std::filesystem::create_directory(other);
  ::testing::internal::CaptureStderr();
  {
    const ::tessera::testing::LoweredLimit limit(RLIMIT_NOFILE, 0);  // as on a file system without locks of folders
    EXPECT_EQ(lock_folder(other), -1);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "warning: " + other +
                " cannot be locked (Too many open files), so a second run in this folder would not be noticed\n");
}

TEST(OutputFolder, AFolderThatARunCreatedAndLeftEmptyIsRemoved) {
  const FreshRank rank;
  const TemporaryFolder folder;
  TrainingArguments arguments;
  arguments.output_dir = folder.file("runs/out/");
  {
    const OutputFolder output(arguments);
    EXPECT_TRUE(std::filesystem::is_directory(folder.file("runs/out")));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  {
    const OutputFolder output(arguments);
    (void)folder.write("runs/out/log.csv", "");
  }
  EXPECT_TRUE(std::filesystem::exists(folder.file("runs/out/log.csv")));
  arguments.output_dir = folder.file("of_the_user");
  std::filesystem::create_directory(arguments.output_dir);
  EXPECT_EQ(error_of_folder(arguments), "no error");
  EXPECT_TRUE(std::filesystem::exists(arguments.output_dir));
}

// ---- checkpoints ----------------------------------------------------------------------------------------------------------

class SurplusCheckpoints : public ::testing::Test {
 protected:
  SurplusCheckpoints() {
    for (const char* name : {"checkpoint-1", "checkpoint-2", "checkpoint-3", "checkpoint-4"})
      (void)folder_.write(std::string(name) + "/manifest.json", "{}");
    arguments_.output_dir = folder_.path();
    arguments_.save_total_limit = 1;
  }
  // The checkpoints that are left when the run continues.
  std::set<std::string> left_by(const std::string& checkpoint, const std::string& best = "") {
    RunSaver saver(arguments_, true);
    saver.continue_from(checkpoint, best);
    std::set<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) out.insert(entry.path().filename());
    return out;
  }

  FreshRank rank_;
  TemporaryFolder folder_;
  TrainingArguments arguments_;
};

TEST_F(SurplusCheckpoints, AreDeletedWhenARunContinues) {
  EXPECT_EQ(left_by(folder_.file("checkpoint-4")), (std::set<std::string>{"checkpoint-4"}));
}

TEST_F(SurplusCheckpoints, DoNotContainTheBestOne) {
  EXPECT_EQ(left_by(folder_.file("checkpoint-4"), folder_.file("checkpoint-2")),
            (std::set<std::string>{"checkpoint-2", "checkpoint-4"}));
}

TEST_F(SurplusCheckpoints, StayIfTheNewestOneMayBeDamagedOrThereIsNoLimit) {
  EXPECT_EQ(left_by(folder_.file("checkpoint-3")).size(), 4U);
  EXPECT_EQ(left_by("elsewhere/checkpoint-4").size(), 4U);
  arguments_.save_total_limit.reset();
  EXPECT_EQ(left_by(folder_.file("checkpoint-4")).size(), 4U);
}

TEST(RunSaver, CountsSavesThatFail) {
  const FreshRank rank;
  const TemporaryFolder folder;
  TrainingArguments arguments;
  arguments.output_dir = folder.write("file", "");  // no folder can be made in it
  RunSaver saver(arguments, true);
  EXPECT_EQ(saver.failures(), "");
  ::testing::internal::CaptureStderr();
  const auto save = [&](std::int64_t step) {
    saver.begin(step, {.states = {}, .documents = {{"config", JsonObject()}}}, "");
    saver.finish();
  };
  save(1);
  EXPECT_TRUE(saver.failures().starts_with("1 checkpoint could not be saved; the last reason: ")) << saver.failures();
  save(2);
  EXPECT_TRUE(saver.failures().starts_with("2 checkpoints could not be saved; the last reason: ")) << saver.failures();
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("; the run continues"), std::string::npos);
}

// ---- flags ----------------------------------------------------------------------------------------------------------------

TEST(ChangedFlags, AreThoseThatDetermineTheTraining) {
  const TemporaryFolder folder;
  TrainingArguments now;
  now.learning_rate = 1e-3;
  now.max_steps = 20;
  EXPECT_EQ(changed_flags(now, folder.path()), Lines{}) << "no file";
  now.json().save(folder.file("training_args.json"));
  EXPECT_EQ(changed_flags(now, folder.path()), Lines{});
  now.output_dir = "elsewhere";
  now.mesh = "data=2";
  now.logging_steps = 7;
  now.train_file = "copy.txt";
  now.num_train_epochs = 9;  // has no effect with max_steps
  EXPECT_EQ(changed_flags(now, folder.path()), Lines{});
  now.learning_rate = 5e-4;
  now.weight_decay = 0.1;
  now.adam_beta1 = 0.8;
  now.lr_scheduler_type = "cosine";
  now.max_steps = 30;
  now.dtype = "float64";
  now.metric_for_best_model = "loss";
  EXPECT_EQ(changed_flags(now, folder.path()),
            (Lines{"--learning_rate was 0.001, now it is 0.0005", "--weight_decay was 0, now it is 0.1",
                   "--adam_beta1 was 0.9, now it is 0.8", "--lr_scheduler_type was linear, now it is cosine",
                   "--max_steps was 20, now it is 30", "--dtype was float32, now it is float64",
                   "--metric_for_best_model was not given, now it is loss"}));
}

// The configuration is that of the checkpoint, and its vocabulary may be large enough for the ids of other tokenizers.
TEST(ChangedFlags, AreToldIfTheTokenizerIsNotGivenAgain) {
  const TemporaryFolder folder;
  TrainingArguments now;
  now.tokenizer_name = "bpe:300";
  now.tokenizer_is_given = true;
  now.json().save(folder.file("training_args.json"));
  EXPECT_EQ(changed_flags(now, folder.path()), Lines{});
  now.tokenizer_name = "bytes";
  EXPECT_EQ(changed_flags(now, folder.path()), Lines{"--tokenizer_name was bpe:300, now it is bytes"});
  now.tokenizer_is_given = false;
  EXPECT_EQ(changed_flags(now, folder.path()), Lines{"--tokenizer_name was bpe:300, now it is not given"});
  now.json().save(folder.file("training_args.json"));
  EXPECT_EQ(changed_flags(now, folder.path()), Lines{});
  now.tokenizer_name = "bpe:300";  // a program has set it, not a flag
  now.json().save(folder.file("training_args.json"));
  EXPECT_EQ(changed_flags(now, folder.path()), Lines{});
}

TEST(ChangedFlags, AreListedInOneWarning) {
  const FreshRank rank;
  const TemporaryFolder folder;
  TrainingArguments now;
  now.json().save(folder.file("training_args.json"));
  const auto said = [&] {
    ::testing::internal::CaptureStderr();
    warn_of_changed_flags(now, folder.file("checkpoint-20/"));
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said(), "");
  now.block_size = 16;
  now.optim_args = "momentum=0.9";
  EXPECT_EQ(said(),
            "warning: the run had other flags: --optim_args was not given, now it is momentum=0.9; --block_size was 0, "
            "now it is 16\n");
}

}  // namespace
}  // namespace tessera::trainer
