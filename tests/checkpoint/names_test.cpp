// SPDX-License-Identifier: Apache-2.0
// Errors of save, load, rendezvous and optimizer_step.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <thread>

#include "checkpoint/small_gpt2.h"
#include "files/partial_file.h"
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

TEST(Save, AnErrorIsOneOfAllRanks) {
  const TemporaryFolder folder;
  const std::string path = folder.file("no_folder/x.safetensors");
  on_ranks(3, [&](int) {
    const std::string error = testing::error_of([&] { save(one_tensor(2), path); });
    EXPECT_NE(error.find("cannot save " + path + ": rank 0 on host"), std::string::npos) << error;
    EXPECT_NE(error.find("No such file or directory"), std::string::npos) << error;
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

TEST(Save, FilesOfTheUserAndOfRunningProcessesStay) {
  const TemporaryFolder folder;
  const FreshRank rank;
  const std::string path = folder.file("x.safetensors");
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  std::set<std::string> kept = {path + ".partial", path + ".partial-notes", partial_file_name(path, 1, 0),
                                partial_file_name(path, getpid(), 0), partial_file_name(path, child, 0) + ".txt"};
  for (const std::string& name : kept) write_file(name, "kept");
  const std::string left = partial_file_name(path, child, 3);
  write_file(left, "left by a save that was killed");
  ::testing::internal::CaptureStderr();
  save(one_tensor(2), path);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "warning: deleted " + left + ", which an interrupted save left\n");
  for (const std::string& name : kept) EXPECT_EQ(read_file(name), "kept") << name;
  kept.insert(path);
  std::set<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder.path())) found.insert(entry.path().string());
  EXPECT_EQ(found, kept);
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
