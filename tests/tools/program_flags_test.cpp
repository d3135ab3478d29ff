// SPDX-License-Identifier: Apache-2.0
// What tessera launch reads from the command line of a training program, and which checkpoints count for it.
#include "launch/program_flags.h"

#include <gtest/gtest.h>

#include "launch/checkpoint_watch.h"
#include "support/temporary_folder.h"

namespace tessera::command {
namespace {

using ::tessera::testing::TemporaryFolder;
using FlagWords = std::vector<std::string>;

// The manifest of a checkpoint without content.
constexpr const char* kManifest =
    "{\"format\":\"tessera-checkpoint\",\"version\":2,\"files\":{},\"tensors\":{},\"xxh3\":\"aeb5301419c723a9\"}\n";

std::string newest(const CheckpointWatch& watch) {
  return watch.newest([](const std::string& text) { ADD_FAILURE() << text; });
}

TEST(ProgramFlags, TheLastOutputFolderCounts) {
  EXPECT_EQ(output_folder({"p", "--output_dir", "a", "--seed", "1", "--output_dir", "b"}, ""), "b");
  EXPECT_EQ(output_folder({"p", "--output_dir=a", "--output-dir", "b", "--output_dir=c"}, "in"), "in/c");
  EXPECT_EQ(output_folder({"p", "--output_dir", "a", "--output_dir"}, ""), "a") << "the program reports the second one";
  EXPECT_EQ(output_folder({"p", "--seed", "1"}, "in"), "");
}

TEST(ProgramFlags, AFlagCountsMoreThanTheFileOfFlags) {
  const TemporaryFolder folder;
  (void)folder.write("args.json", R"({"output_dir": "of_file", "save_only_model": true})");
  EXPECT_EQ(output_folder({"env", "A=1", "run_clm", "args.json"}, folder.path()), folder.file("of_file"));
  EXPECT_EQ(output_folder({"run_clm", "args.json", "--output_dir", "x"}, folder.path()), folder.file("x"));
  EXPECT_TRUE(saves_only_model({"run_clm", "args.json"}, folder.path()));
  EXPECT_FALSE(saves_only_model({"run_clm", "args.json", "--save_only_model", "false"}, folder.path()));
}

TEST(ProgramFlags, SaveOnlyModelMayHaveNoValue) {
  EXPECT_TRUE(saves_only_model({"p", "--save_only_model", "--seed", "1"}, ""));
  EXPECT_TRUE(saves_only_model({"p", "--save-only-model"}, ""));
  EXPECT_TRUE(saves_only_model({"p", "--save_only_model=True"}, ""));
  EXPECT_FALSE(saves_only_model({"p", "--save_only_model", "--save_only_model", "no"}, ""));
  EXPECT_FALSE(saves_only_model({"p"}, ""));
}

TEST(ProgramFlags, ARestartCanNameItsCheckpoint) {
  EXPECT_EQ(naming_checkpoint({"--resume_from_checkpoint", "true"}),
            (FlagWords{"--resume_from_checkpoint", "{checkpoint}"}));
  EXPECT_EQ(naming_checkpoint({"--from", "true"}), (FlagWords{"--from", "true"}));
}

TEST(CheckpointWatch, ThoseWithoutAStateOfTheRunDoNotCount) {
  const TemporaryFolder folder;
  CheckpointWatch watch(folder.path(), false);
  for (const char* name : {"manifest.json", "trainer_state.json"})
    (void)folder.write(std::string("checkpoint-5/") + name, kManifest);
  EXPECT_FALSE(watch.has_new());
  EXPECT_EQ(newest(watch), "");
  for (const char* name : {"manifest.json", "trainer_state.json", "run_state.json"})
    (void)folder.write(std::string("checkpoint-3/") + name, kManifest);
  EXPECT_TRUE(watch.has_new());
  EXPECT_EQ(newest(watch), folder.file("checkpoint-3"));
  EXPECT_TRUE(watch.is_last(folder.file("checkpoint-3")));
}

TEST(CheckpointWatch, OneOfAnotherRunMayHaveAHigherNumber) {
  const TemporaryFolder folder;
  (void)folder.write("checkpoint-9/manifest.json", kManifest);
  CheckpointWatch watch(folder.path(), false);
  (void)folder.write("checkpoint-3/manifest.json", kManifest);
  EXPECT_EQ(newest(watch), folder.file("checkpoint-3"));
  EXPECT_FALSE(watch.is_last(newest(watch)));
}

// The last one is renamed too if no checkpoint is undamaged, so that a program can start over.
TEST(CheckpointWatch, DamagedOnesDoNotCount) {
  const TemporaryFolder folder;
  const CheckpointWatch watch(folder.path(), false);
  FlagWords said;
  const auto say = [&](const std::string& text) { said.push_back(text); };
  (void)folder.write("checkpoint-3/manifest.json", kManifest);
  (void)folder.write("checkpoint-7/manifest.json", "{}");
  EXPECT_EQ(watch.newest(say), folder.file("checkpoint-3"));
  ASSERT_EQ(said.size(), 1U);
  EXPECT_TRUE(said[0].starts_with(folder.file("checkpoint-7") + " is damaged: ")) << said[0];
  (void)folder.write("checkpoint-3/manifest.json", "");
  said.clear();
  EXPECT_EQ(watch.newest(say), "");
  ASSERT_EQ(said.size(), 4U);
  EXPECT_EQ(said[3], "renamed " + folder.file("checkpoint-3") + " to " + folder.file("checkpoint-3.replaced") +
                         ", because the job has no undamaged checkpoint");
  EXPECT_EQ(watch.newest(say), "");
}

TEST(CheckpointWatch, OneOfANewerVersionIsNotPassedOver) {
  const TemporaryFolder folder;
  const CheckpointWatch watch(folder.path(), false);
  (void)folder.write("checkpoint-3/manifest.json", kManifest);
  std::string newer = kManifest;
  newer[newer.find("\"version\":2") + 10] = '3';
  const std::string path = folder.write("checkpoint-7/manifest.json", newer);
  EXPECT_EQ(::tessera::testing::error_of([&] { (void)newest(watch); }),
            path +
                ": the checkpoint was written by a newer version of Tessera: its format has version 3, and this "
                "program reads version 2; use the program that wrote it, or give another checkpoint");
}

}  // namespace
}  // namespace tessera::command
