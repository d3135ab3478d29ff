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
    (void)folder.write(std::string("checkpoint-5/") + name, "{}");
  EXPECT_FALSE(watch.has_new());
  EXPECT_EQ(watch.newest(), "");
  for (const char* name : {"manifest.json", "trainer_state.json", "run_state.json"})
    (void)folder.write(std::string("checkpoint-3/") + name, "{}");
  EXPECT_TRUE(watch.has_new());
  EXPECT_EQ(watch.newest(), folder.file("checkpoint-3"));
  EXPECT_TRUE(watch.is_last(folder.file("checkpoint-3")));
}

TEST(CheckpointWatch, OneOfAnotherRunMayHaveAHigherNumber) {
  const TemporaryFolder folder;
  (void)folder.write("checkpoint-9/manifest.json", "{}");
  CheckpointWatch watch(folder.path(), false);
  (void)folder.write("checkpoint-3/manifest.json", "{}");
  EXPECT_EQ(watch.newest(), folder.file("checkpoint-3"));
  EXPECT_FALSE(watch.is_last(watch.newest()));
}

}  // namespace
}  // namespace tessera::command
