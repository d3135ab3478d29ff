// SPDX-License-Identifier: Apache-2.0
// The checkpoints of a run that another run replaces, at every moment at which the other run may be killed.
#include <gtest/gtest.h>

#include <filesystem>

#include "support/temporary_folder.h"
#include "tessera/base/files.h"
#include "tessera/checkpoint/checkpoint.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

// A folder with the checkpoints 4, 8 and 12 of an old run.
class ReplacedRuns : public ::testing::Test {
 protected:
  ReplacedRuns() {
    for (const int step : {4, 8, 12}) write("", step, "old");
    (void)folder_.write("checkpoint-5/notes.txt", "of the user");
  }
  void write(const std::string& in, int step, const std::string& run) const {
    (void)folder_.write(in + "checkpoint-" + std::to_string(step) + "/manifest.json", run);
  }
  // The runs of the checkpoints that can be found, by step.
  [[nodiscard]] std::map<std::int64_t, std::string> found() const {
    std::map<std::int64_t, std::string> out;
    for (const auto& [step, path] : checkpoints_in(folder_.path()))
      if (fs::exists(path + "/manifest.json")) out[step] = read_file(path + "/manifest.json");
    return out;
  }
  void recover(std::int64_t deleted, std::int64_t restored) const {
    const ReplacedRun done = recover_replaced_run(folder_.path());
    EXPECT_EQ(done.deleted, deleted);
    EXPECT_EQ(done.restored, restored);
    EXPECT_FALSE(holds_replaced_run(folder_.path()));
    const ReplacedRun again = recover_replaced_run(folder_.path());
    EXPECT_EQ(again.deleted + again.restored, 0);
    EXPECT_TRUE(fs::exists(folder_.file("checkpoint-5/notes.txt")));
  }
  const std::map<std::int64_t, std::string> old_ = {{4, "old"}, {8, "old"}, {12, "old"}};
  const TemporaryFolder folder_;
};

TEST_F(ReplacedRuns, ARunThatIsNotReplacedStays) {
  recover(0, 0);
  EXPECT_EQ(found(), old_);
}

TEST_F(ReplacedRuns, WithoutANewCheckpointTheOldOnesComeBack) {
  set_run_aside(folder_.path());
  EXPECT_TRUE(found().empty());
  EXPECT_TRUE(holds_replaced_run(folder_.path()));
  recover(0, 3);
  EXPECT_EQ(found(), old_);
}

TEST_F(ReplacedRuns, IfOnlySomeWereMovedTheyComeBack) {
  fs::create_directory(folder_.file("replaced_run.partial"));
  fs::rename(folder_.file("checkpoint-4"), folder_.file("replaced_run.partial/checkpoint-4"));
  recover(0, 1);
  EXPECT_EQ(found(), old_);
}

TEST_F(ReplacedRuns, WithANewCheckpointTheOldOnesAreDeleted) {
  set_run_aside(folder_.path());
  write("", 4, "new");
  recover(3, 0);
  EXPECT_EQ(found(), (std::map<std::int64_t, std::string>{{4, "new"}}));
}

TEST_F(ReplacedRuns, ADeletionThatWasInterruptedIsCompleted) {
  set_run_aside(folder_.path());
  fs::rename(folder_.file("replaced_run"), folder_.file("replaced_run.deleted"));
  fs::remove_all(folder_.file("replaced_run.deleted/checkpoint-4"));
  recover(2, 0);
  EXPECT_TRUE(found().empty());
  EXPECT_FALSE(fs::exists(folder_.file("replaced_run.deleted")));
}

TEST_F(ReplacedRuns, OnlyCheckpointsAreDeleted) {
  (void)folder_.write("replaced_run/notes.txt", "of the user");
  (void)folder_.write("replaced_run/checkpoint-1/manifest.json", "older");
  (void)recover_replaced_run(folder_.path());
  EXPECT_EQ(read_file(folder_.file("replaced_run.deleted/notes.txt")), "of the user");
  EXPECT_EQ(found(), old_);
}

TEST_F(ReplacedRuns, TheCheckpointThatWasJustWrittenIsKeptWhateverItsNumberIs) {
  write("", 2, "new");
  keep_newest_checkpoints(folder_.path(), 1, "", folder_.file("checkpoint-2/"));
  EXPECT_EQ(found(), (std::map<std::int64_t, std::string>{{2, "new"}}));
}

TEST(LeftFiles, FilesOfTheUserAreNotSwept) {
  const TemporaryFolder folder;
  for (const char* name :
       {"dataset.json.partial", "other-model.safetensors.partial", "notes.json.tmp1.0", "merges.txt.tmp"})
    (void)folder.write(name, "of the user");
  for (const char* name :
       {"vocab.bpe.tmp123.0", "merges.txt.tmp9.3", "tokenizer.json.tmp5.0", "training_args.json.tmp5.0",
        "model.safetensors.index.json.partial", "model.safetensors.partial"})
    (void)folder.write(name, "left");
  EXPECT_EQ(remove_partial_checkpoints(folder.path()).size(), 6U);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 4);
  for (const auto& entry : fs::directory_iterator(folder.path())) EXPECT_EQ(read_file(entry.path()), "of the user");
}

}  // namespace
}  // namespace tessera
