// SPDX-License-Identifier: Apache-2.0
// Checkpoints that are written while the training continues.
#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/training_run.h"
#include "frontend/on_ranks.h"
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

}  // namespace
}  // namespace tessera
