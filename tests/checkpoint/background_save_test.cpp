// SPDX-License-Identifier: Apache-2.0
// Checkpoints that are written while the training continues.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <set>

#include "checkpoint/training_run.h"
#include "frontend/on_ranks.h"
#include "save_after_error.h"
#include "support/sanitizers.h"
#include "support/system_limits.h"
#include "support/temporary_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

TEST(BackgroundSaves, ASaveBesideTheTrainingHasTheValuesOfItsBeginning) {
  for (const Layout& layout : testing::cases_of<Layout>({kChain[2], kChain[0], kChain[3]})) {
    const TemporaryFolder folder;
    std::map<std::string, Literal> expected;
    on_ranks(layout.ranks, [&](int rank) {
      Training run(layout, 7);
      train_step(run.model, *run.optimizer, 0);
      auto values = values_of(run.model);
      if (rank == 0) expected = std::move(values);
      CheckpointWriter writer;
      writer.begin(folder.file("checkpoint-1"), run.content());
      EXPECT_TRUE(writer.is_busy());
      EXPECT_THROW(writer.begin(folder.file("checkpoint-2"), run.content()), Error);
      std::optional<CheckpointWriter::Outcome> outcome;
      for (int step = 1; step < 4; ++step) {
        train_step(run.model, *run.optimizer, step);
        if (auto ended = writer.poll()) outcome = ended;
      }
      if (!outcome) outcome = writer.finish();
      EXPECT_EQ(outcome.value().error, "");
      EXPECT_FALSE(writer.is_busy() || writer.poll() || writer.finish());
    });
    on_ranks(layout.ranks, [&](int) {
      Training run(layout, 8);
      load_checkpoint(folder.file("checkpoint-1"), run.states());
      EXPECT_EQ(values_of(run.model), expected) << layout.mesh;
    });
  }
}

TEST(BackgroundSaves, AWriterThatFailsIsReportedAndTheTrainingGoesOn) {
  const TemporaryFolder folder;
  const testing::LoweredLimit limit(RLIMIT_FSIZE, 20000);
  on_ranks(2, [&](int) {
    Training run({2, "fsdp=2", true, false}, 7);
    CheckpointWriter writer;
    writer.begin(folder.file("checkpoint-1"), run.content());
    train_step(run.model, *run.optimizer, 0);
    const auto outcome = writer.finish();
    EXPECT_NE(outcome.value().error.find("File too large"), std::string::npos) << outcome->error;
    EXPECT_NE(outcome->error.find("state-00001-of-00002.safetensors"), std::string::npos) << outcome->error;
    train_step(run.model, *run.optimizer, 1);
    EXPECT_FALSE(load_newest_checkpoint(folder.file(""), run.states()));
  });
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.file("")), {}), 0);
}

// The names in a folder.
std::set<std::string> files_in(const std::string& folder) {
  std::set<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder)) out.insert(entry.path().filename().string());
  return out;
}

// Saves on some ranks, of which `fails` leave with an exception while the others are in a collective. Returns the values that
// were saved, by name.
std::map<std::string, Literal> save_and_fail(const Layout& layout, const std::string& folder,
                                             const std::set<int>& fails) {
  std::map<std::string, Literal> expected;
  const auto body = [&](int rank) {
    Training run(layout, 7);
    train_step(run.model, *run.optimizer, 0);
    auto values = values_of(run.model);
    if (rank == 0) expected = std::move(values);
    CheckpointWriter writer;
    CheckpointContent content = run.content();
    content.documents.at("run").set("rank", rank);
    writer.begin(folder, content);
    if (fails.contains(rank)) throw Error("this rank fails");
    for (int step = 1; step < 3; ++step) train_step(run.model, *run.optimizer, step);
    writer.finish();
  };
  EXPECT_NE(testing::error_of([&] { on_ranks(layout.ranks, body); }).find("this rank fails"), std::string::npos);
  return expected;
}

TEST(BackgroundSaves, ARankThatFailsAloneDoesNotLoseTheSave) {
  const Layout layout{3, "fsdp=3", true, false};
  for (const std::set<int>& fails : {std::set{0}, std::set{2}, std::set{0, 1, 2}}) {
    const TemporaryFolder folder;
    ::testing::internal::CaptureStderr();
    const auto expected = save_and_fail(layout, folder.file("checkpoint-1"), fails);
    const std::string text = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(text.find("checkpoint-1 was being saved when rank "), std::string::npos) << text;
    EXPECT_EQ(files_in(folder.path()), std::set<std::string>{"checkpoint-1"});
    EXPECT_FALSE(files_in(folder.file("checkpoint-1")).contains("taken_over"));
    on_ranks(2, [&](int) {
      Training run({2, "data=2", false, false}, 8);
      const Checkpoint loaded = load_checkpoint(folder.file("checkpoint-1"), run.states());
      EXPECT_EQ(values_of(run.model), expected);
      int rank = -1;
      loaded.document("run").read("rank", rank);
      EXPECT_EQ(rank, 0) << "the documents are those of rank 0";
    });
  }
}

TEST(BackgroundSaves, ASaveWhoseFilesCannotBeWrittenIsLostAfterAnError) {
  const TemporaryFolder folder;
  const Layout layout{2, "fsdp=2", true, false};
  const std::string first = folder.file("checkpoint-1");
  on_ranks(2, [&](int) { save_checkpoint(first, Training(layout, 7).content()); });
  ::testing::internal::CaptureStderr();
  {
    const testing::LoweredLimit limit(RLIMIT_FSIZE, 20000);
    (void)save_and_fail(layout, folder.file("checkpoint-2"), {1});
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("the save of " + folder.file("checkpoint-2") + " is lost: "), std::string::npos) << text;
  EXPECT_NE(text.find("File too large"), std::string::npos) << text;
  EXPECT_EQ(files_in(folder.path()), (std::set<std::string>{"checkpoint-1", "checkpoint-2.partial"}));
  on_ranks(2, [&](int) {
    EXPECT_EQ(damage_of(first), "");
    save_checkpoint(folder.file("checkpoint-2"), Training(layout, 7).content());  // what is left is replaced
  });
  EXPECT_EQ(files_in(folder.path()), (std::set<std::string>{"checkpoint-1", "checkpoint-2"}));
}

TEST(BackgroundSaves, OneRankEndsASaveAfterErrors) {
  const TemporaryFolder folder;
  constexpr auto kNoTime = std::chrono::milliseconds(1);
  const auto write = [&](const std::string& name) { (void)folder.write("c.partial/" + name, "x"); };
  const std::string partial = folder.file("c.partial");
  const auto end = [&] {
    const AfterError out = wait_after_error(partial, 2, kNoTime);
    return out.completes ? "completes" : out.lost;
  };
  const std::string first = "state-00001-of-00002.safetensors.xxh3";
  write(first);
  write("state-00002-of-00002.safetensors.xxh3.partial");
  EXPECT_EQ(end(), "1 of 2 ranks, such as rank 1, did not complete their files within 0 s");
  EXPECT_EQ(end(), "") << "it is given up";
  fs::remove_all(partial);
  EXPECT_EQ(end(), "") << "it has got its name";
  write(first);
  write("state-00002-of-00002.safetensors.xxh3");
  EXPECT_EQ(end(), "completes");
  EXPECT_EQ(end(), "") << "another rank completes it";
  write("manifest.json");
  hand_back(partial);
  EXPECT_FALSE(take_over(partial)) << "it is complete but for its name";
  EXPECT_EQ(files_in(partial).count("taken_over"), 0U);
}

// As on a disk without space for another file.
TEST(BackgroundSaves, ASaveThatCannotBeTakenOverNamesTheReason) {
  const TemporaryFolder folder;
  const std::string partial = folder.write("c.partial", "no folder");
  const std::string reason = "cannot write " + partial + "/taken_over: Not a directory";
  EXPECT_EQ(testing::error_of([&] { (void)take_over(partial); }), reason);
  EXPECT_EQ(testing::error_of([&] { (void)wait_after_error(partial, 2, std::chrono::milliseconds(1)); }), reason);
  ::testing::internal::CaptureStderr();
  give_up(partial);  // does not throw, because it is called after an error
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "warning: other ranks cannot be told that the save is given up: cannot write " + partial +
                "/given_up: Not a directory\n");
}

TEST(BackgroundSaves, ADroppedSaveGetsNoName) {
  const TemporaryFolder folder;
  ::testing::internal::CaptureStderr();
  const auto body = [&](int) {
    Training run({2, "data=2", false, false}, 7);
    CheckpointWriter writer;
    writer.begin(folder.file("checkpoint-1"), run.content());
    writer.drop();
    EXPECT_FALSE(writer.is_busy());
    throw Error("the values must not be used");
  };
  EXPECT_THROW(on_ranks(2, body), Error);
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(text, "warning: the save of " + folder.file("checkpoint-1") + " is dropped\n");
  EXPECT_EQ(files_in(folder.path()), std::set<std::string>{"checkpoint-1.partial"});
  EXPECT_EQ(remove_partial_checkpoints(folder.path()).size(), 1U);
}

}  // namespace
}  // namespace tessera
