// SPDX-License-Identifier: Apache-2.0
// Errors of save, load, rendezvous and optimizer_step.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "checkpoint/small_gpt2.h"
#include "frontend/on_ranks.h"
#include "support/system_limits.h"
#include "support/temporary_folder.h"
#include "tessera/base/files.h"
#include "tessera/checkpoint/save.h"
#include "tessera/frontend/execution/rendezvous.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

StateDict one_tensor(double value) {
  StateDict out;
  out.add({"x", Tensor::full(Type::array(DType::kF64, {3}), value), {}});
  mark_step();
  return out;
}

TEST(Save, AnErrorIsOneOfAllRanksAndKeepsTheOldFile) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.safetensors");
  fs::create_directories(path + ".partial/in_the_way");
  on_ranks(3, [&](int) {
    const std::string error = testing::error_of([&] { save(one_tensor(2), path); });
    EXPECT_NE(error.find("cannot save " + path + ": rank 0 on host"), std::string::npos) << error;
    EXPECT_NE(error.find("Is a directory"), std::string::npos) << error;
  });
  EXPECT_FALSE(fs::exists(path));
}

TEST(Save, AFullDiskKeepsTheOldFileAndLeavesNoOther) {
  const TemporaryFolder folder;
  const FreshRank rank;
  const std::string path = folder.file("x.safetensors");
  save(one_tensor(2), path);
  const std::string before = read_file(path);
  {
    const testing::LoweredLimit limit(RLIMIT_FSIZE, 20);
    EXPECT_NE(testing::error_of([&] { save(one_tensor(3), path); }).find("File too large"), std::string::npos);
  }
  EXPECT_EQ(read_file(path), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.file("")), {}), 1);
}

TEST(Save, AFolderIsNotReplaced) {
  const TemporaryFolder folder;
  const FreshRank rank;
  fs::create_directories(folder.file("x"));
  EXPECT_EQ(testing::error_of([&] { save(one_tensor(2), folder.file("x")); }),
            "cannot save " + folder.file("x") + ": it is not a file");
}

TEST(Load, ADamagedFileIsNamed) {
  const TemporaryFolder folder;
  const FreshRank rank;
  EXPECT_NE(testing::error_of([&] { load(folder.file("absent")); }).find("absent: No such file"), std::string::npos);
  const std::string path = folder.file("x.safetensors");
  save(one_tensor(2), path);
  fs::resize_file(path, fs::file_size(path) - 1);
  EXPECT_NE(testing::error_of([&] { load(path); }).find(path), std::string::npos);
}

TEST(Rendezvous, TwoNamesAtOnceAreAnErrorThatNamesBoth) {
  for (const int ranks : {2, 3, 4}) {
    const std::string error = testing::error_of([&] {
      on_ranks(ranks, [&](int rank) { rendezvous(rank == ranks - 1 ? "evaluation" : "saving_optimizer_states"); });
    });
    EXPECT_NE(error.find("ranks diverge: "), std::string::npos) << error;
    EXPECT_NE(error.find(fmt::format("rank {} is at rendezvous \"evaluation\"", ranks - 1)), std::string::npos)
        << error;
    EXPECT_NE(error.find(" at rendezvous \"saving_optimizer_states\""), std::string::npos) << error;
  }
}

TEST(Rendezvous, ARankThatDoesNotComeIsNamedAfterTheTimeout) {
  const std::string error = testing::error_of([] {
    on_ranks(3, [](int rank) {
      if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      rendezvous("saving", {.timeout = std::chrono::seconds(1)});
    });
  });
  EXPECT_NE(error.find("waited 1 s in rendezvous \"saving\", as long as its timeout allows; rank 1 has not arrived"),
            std::string::npos)
      << error;
}

TEST(Rendezvous, TheTimeoutEndsWithItsCall) {
  on_ranks(2, [](int rank) {
    rendezvous("first", {.timeout = std::chrono::seconds(1)});
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1300));
    EXPECT_EQ(rendezvous("second", {.payload = std::to_string(rank)}), (std::vector<std::string>{"0", "1"}));
  });
}

TEST(OptimizerStep, RefusesParametersThatFsdpShards) {
  on_ranks(2, [](int) {
    nn::GPT2LMHeadModel model(small_gpt2());
    fully_shard(model, {});
    optim::SGD optimizer(model.parameters(), {});
    const std::string error = testing::error_of([&] { optim::optimizer_step(optimizer); });
    EXPECT_NE(error.find("but FSDP shards lm_head.weight"), std::string::npos) << error;
    EXPECT_NE(error.find("call optimizer.step()"), std::string::npos) << error;
  });
}

}  // namespace
}  // namespace tessera
