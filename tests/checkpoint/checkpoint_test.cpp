// SPDX-License-Identifier: Apache-2.0
// Checkpoints: saved under one layout and loaded under another, damaged files, and interrupted saves.
#include "tessera/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <filesystem>
#include <random>
#include <span>

#include "checkpoint/training_run.h"
#include "frontend/on_ranks.h"
#include "support/sanitizers.h"
#include "support/temporary_folder.h"
#include "tessera/base/checksum.h"
#include "tessera/base/files.h"
#include "tessera/base/random_access.h"
#include "tessera/fsdp/fsdp.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

double largest_difference(const std::map<std::string, Literal>& a, const std::map<std::string, Literal>& b) {
  double most = 0;
  for (const auto& [name, value] : a)
    for (std::size_t i = 0; i < value.data<double>().size(); ++i)
      most = std::max(most, std::abs(value.data<double>()[i] - b.at(name).data<double>()[i]));
  return most;
}

void write_file_in(const std::string& folder, const std::string& name) {
  make_folder(folder);
  write_file(folder + "/" + name, "{}");
}

TEST(Checkpoints, AChainOfRanksAndMeshesContinuesTheRun) {
  const TemporaryFolder folder;
  std::map<std::string, Literal> expected;
  {
    const FreshRank rank;
    Training run({1, "data=1", false, false}, 7);
    for (int step = 0; step < 12; ++step) train_step(run.model, *run.optimizer, step);
    expected = values_of(run.model);
  }
  for (std::size_t i = 0; i < kChain.size(); ++i) {
    on_ranks(kChain[i].ranks, [&](int) {
      Training run(kChain[i], i == 0 ? 7 : 1000 + i);
      if (i > 0) run.load([&](const auto& all) { EXPECT_TRUE(load_newest_checkpoint(folder.file(""), all)); });
      const int first = static_cast<int>(2 * i);
      EXPECT_EQ(run.optimizer->step_count(), first);
      for (int step = first; step < first + 2; ++step) train_step(run.model, *run.optimizer, step);
      save_checkpoint(folder.file("checkpoint-" + std::to_string(first + 2)), run.content());
      if (i + 1 < kChain.size()) return;
      EXPECT_LT(largest_difference(expected, values_of(run.model)), 1e-9);
    });
  }
  EXPECT_EQ(checkpoints_in(folder.file("")).size(), kChain.size());
}

TEST(Checkpoints, TheSameLayoutContinuesBitForBit) {
  for (const Layout& layout : testing::cases_of<Layout>({kChain[2], kChain[0]})) {
    const TemporaryFolder folder;
    std::map<std::string, Literal> expected;
    on_ranks(layout.ranks, [&](int rank) {
      Training run(layout, 7);
      for (int step = 0; step < 4; ++step) {
        train_step(run.model, *run.optimizer, step);
        if (step == 1) save_checkpoint(folder.file("checkpoint-2"), run.content());
      }
      auto values = values_of(run.model);
      if (rank == 0) expected = std::move(values);
    });
    on_ranks(layout.ranks, [&](int) {
      Training run(layout, 8);
      run.load(Checkpoint(folder.file("checkpoint-2")));
      for (int step = 2; step < 4; ++step) train_step(run.model, *run.optimizer, step);
      EXPECT_EQ(values_of(run.model), expected) << layout.mesh;
    });
  }
}

class DamagedCheckpoint : public ::testing::Test {
 protected:
  DamagedCheckpoint() {
    on_ranks(2, [&](int) {
      Training run({2, "fsdp=2", true, false}, 7);
      for (const char* name : {"checkpoint-1", "checkpoint-2"}) {
        train_step(run.model, *run.optimizer, 0);
        save_checkpoint(folder_.file(name), run.content());
      }
    });
  }
  // The step of the checkpoint that two ranks find.
  [[nodiscard]] std::int64_t found() const {
    std::vector<std::int64_t> steps(2, -1);
    on_ranks(2, [&](int rank) {
      const Training run({2, "fsdp=2", true, false}, 8);
      const auto newest = load_newest_checkpoint(folder_.file(""), run.states());
      if (newest) newest->document("run").read("steps", steps[static_cast<std::size_t>(rank)]);
    });
    EXPECT_EQ(steps[0], steps[1]);
    return steps[0];
  }
  [[nodiscard]] std::string error() const {
    const FreshRank rank;
    try {
      Checkpoint(folder_.file("checkpoint-2")).verify();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  const TemporaryFolder folder_;
};

TEST_F(DamagedCheckpoint, AnUndamagedOneIsTaken) {
  EXPECT_EQ(error(), "");
  EXPECT_EQ(found(), 2);
}

TEST_F(DamagedCheckpoint, AChangedByteOfAnyFileIsFoundAndTheOneBeforeIsTaken) {
  for (const auto& entry : fs::directory_iterator(folder_.file("checkpoint-2"))) {
    const std::string path = entry.path().string();
    const std::string good = read_file(path);
    for (const std::size_t place : testing::cases_of<std::size_t>({0, good.size() / 2, good.size() - 2})) {
      std::string bad = good;
      bad[place] = static_cast<char>(bad[place] ^ 1);
      write_file(path, bad);
      EXPECT_NE(error().find(entry.path().filename().string()), std::string::npos) << path << " " << place << error();
    }
    EXPECT_EQ(found(), 1) << path;
    write_file(path, good);
  }
}

TEST_F(DamagedCheckpoint, AChangedDigitOfAnyPartInTheManifestIsFound) {
  const std::string path = folder_.file("checkpoint-2/manifest.json");
  const std::string good = read_file(path);
  int changed = 0;
  for (std::size_t place = good.find("\"start\":["); place != std::string::npos;
       place = good.find("\"start\":[", place + 1)) {
    std::string bad = good;
    bad[place + 9] = bad[place + 9] == '1' ? '2' : '1';
    write_file(path, bad);
    EXPECT_NE(error().find("manifest.json"), std::string::npos) << place << error();
    ++changed;
  }
  EXPECT_GT(changed, 50);
}

// Gives a manifest the checksum of its content, or returns the text if it is not JSON.
std::string with_checksum(const std::string& text) {
  boost::json::error_code error;
  boost::json::value all = boost::json::parse(text, error);
  if (error || !all.is_object()) return text;
  all.get_object().erase("xxh3");
  const std::string content = boost::json::serialize(all);
  Checksum sum;
  sum.add(std::as_bytes(std::span(content)));
  all.get_object()["xxh3"] = sum.text();
  return boost::json::serialize(all) + "\n";
}

// A manifest may come from anywhere: with any content it is read, or an Error names it.
TEST_F(DamagedCheckpoint, AManifestWithAnyContentIsReadOrRefused) {
  const FreshRank rank;
  const std::string path = folder_.file("checkpoint-2/manifest.json");
  const std::string good = read_file(path);
  const std::vector<std::string> tokens = {"-1",
                                           "9223372036854775807",
                                           "4611686018427387904",
                                           "{}",
                                           "[]",
                                           "null",
                                           "\"..\"",
                                           "0",
                                           "\"../x\"",
                                           "1e308",
                                           "[[]",
                                           "true",
                                           "\"\""};
  std::mt19937 draw(17);
  int refused = 0;
  for (int i = 0; i < 120; ++i) {
    std::string bad = good;
    const std::size_t place = draw() % bad.size();
    if (i % 3 == 0) {
      bad[place] = static_cast<char>('0' + draw() % 10);
    } else {
      const auto begin = bad.find_first_of(":,[", place);
      const auto end = bad.find_first_of(",]}", begin + 1);
      if (begin == std::string::npos || end == std::string::npos) continue;
      bad.replace(begin + 1, end - begin - 1, tokens[draw() % tokens.size()]);
    }
    write_file(path, with_checksum(bad));
    try {
      const Checkpoint read(folder_.file("checkpoint-2"));
      Training run({1, "data=1", false, false}, 7);
      run.load(read);
      (void)values_of(run.model);
    } catch (const InternalError& error) {
      ADD_FAILURE() << i << ": " << error.what();
    } catch (const Error& error) {
      ++refused;
      EXPECT_NE(std::string(error.what()).find("checkpoint-2"), std::string::npos) << error.what();
    }
  }
  EXPECT_GT(refused, 80);
}

TEST_F(DamagedCheckpoint, ATruncatedOrMissingFileIsFound) {
  for (const char* name : {"state-00002-of-00002.safetensors", "manifest.json", "run.json"}) {
    const std::string path = folder_.file("checkpoint-2/") + name;
    const std::string good = read_file(path);
    write_file(path, good.substr(0, good.size() / 3));
    EXPECT_NE(error().find(name), std::string::npos) << name << error();
    fs::remove(path);
    EXPECT_NE(error().find(name), std::string::npos) << name << error();
    EXPECT_EQ(found(), 1) << name;
    write_file(path, good);
  }
}

TEST_F(DamagedCheckpoint, AFolderThatWasNotRenamedDoesNotCount) {
  fs::rename(folder_.file("checkpoint-2"), folder_.file("checkpoint-2.partial"));
  EXPECT_EQ(found(), 1);
  EXPECT_EQ(remove_partial_checkpoints(folder_.file("")), std::vector{folder_.file("checkpoint-2.partial")});
  EXPECT_FALSE(fs::exists(folder_.file("checkpoint-2.partial")));
}

TEST(Checkpoints, ASaveThatFailsLeavesTheEarlierOne) {
  const TemporaryFolder folder;
  on_ranks(3, [&](int) {
    Training run({3, "fsdp=3", true, false}, 7);
    save_checkpoint(folder.file("checkpoint-1"), run.content());
    std::string text;
    try {
      save_checkpoint("/proc/nothing/checkpoint-2", run.content());
    } catch (const Error& error) {
      text = error.what();
    }
    EXPECT_TRUE(text.starts_with("cannot save /proc/nothing/checkpoint-2: ")) << text;
    EXPECT_EQ(load_newest_checkpoint(folder.file(""), run.states())->folder(), folder.file("checkpoint-1"));
  });
}

// A rank verifies what it reads, and reads nothing else apart from the ends of the blocks of its parts.
TEST(Checkpoints, ALoadReadsTheShardsOnce) {
  const TemporaryFolder folder;
  const Type type = Type::array(DType::kF32, {401, 5003});
  const auto sharded_over = [&](int ranks, double first) {
    StateDict out;
    for (const char* name : {"x", "y"}) {
      const Tensor one = Tensor::iota(type, 0) + first;
      mark_sharding(one, Mesh({{"data", ranks}}), {"data", {}});
      mark_step();
      out.add({name, one, {}});
    }
    return out;
  };
  on_ranks(2, [&](int) {
    save_checkpoint(folder.file("checkpoint-1"), {.states = {{"model", sharded_over(2, 5)}}, .documents = {}});
  });
  on_ranks(3, [&](int) {
    const StateDict state = sharded_over(3, 0);
    const std::uint64_t before = bytes_read_from_files();
    load_checkpoint(folder.file("checkpoint-1"), {{"model", state}});
    const auto read = static_cast<double>(bytes_read_from_files() - before);
    const double shards = 2 * static_cast<double>(type.byte_size()) / 3;
    EXPECT_LT(std::abs(read / shards - 1), 0.02) << read << " " << shards;
    const Literal x = state.find("x")->tensor.to_host();
    EXPECT_EQ(x.data<float>()[0], 5);
    EXPECT_EQ(x.data<float>().back(), 405);
  });
}

// The names of many tensors take more space than their elements.
TEST(Checkpoints, ALoadOpensOnlyTheFilesThatItNeeds) {
  const TemporaryFolder folder;
  const auto state_of = [] {
    StateDict out;
    for (int i = 0; i < 60; ++i) {
      const Tensor one = Tensor::iota(Type::array(DType::kF32, {6}), 0) + static_cast<double>(i);
      mark_sharding(one, Mesh({{"data", 6}}), {"data"});
      out.add({"tensor_with_a_long_name_" + std::to_string(i), one, {}});
    }
    mark_step();
    return out;
  };
  on_ranks(6, [&](int rank) {
    const StateDict state = state_of();
    save_checkpoint(folder.file("checkpoint-1"), {.states = {{"model", state}}, .documents = {}});
    const std::uint64_t before = bytes_read_from_files();
    load_checkpoint(folder.file("checkpoint-1"), {{"model", state}});
    const std::string own = fmt::format("checkpoint-1/state-{:05}-of-00006.safetensors", rank + 1);
    EXPECT_LT(bytes_read_from_files() - before, 3 * fs::file_size(folder.file(own)));
    EXPECT_EQ(state.entries()[59].tensor.to_host().data<float>()[5], 64);
  });
}

TEST(Checkpoints, AFolderWithoutAManifestIsNoCheckpoint) {
  const TemporaryFolder folder;
  const FreshRank rank;
  const std::string error = testing::error_of([&] { load_checkpoint(folder.file("absent"), {}); });
  EXPECT_EQ(error, "cannot load a checkpoint: there is no folder " + folder.file("absent"));
}

TEST(Checkpoints, RanksThatLoadDifferentCheckpointsAreAnError) {
  const TemporaryFolder folder;
  const Layout layout{2, "fsdp=2", true, false};
  on_ranks(2, [&](int) {
    Training run(layout, 7);
    for (const std::string name : {"a", "b"}) {
      save_checkpoint(folder.file(name + "/checkpoint-1"), run.content());
      train_step(run.model, *run.optimizer, 1);
    }
  });
  on_ranks(2, [&](int rank) {
    const std::string name = folder.file(rank == 0 ? "a" : "b") + "/checkpoint-1";
    Training run(layout, 8);
    const std::string error =
        testing::error_of([&] { run.load([&](const auto& all) { load_checkpoint(name, all); }); });
    EXPECT_NE(error.find("is not the same checkpoint on all ranks: its checksums have the hash "), std::string::npos)
        << error;
  });
}

TEST(Checkpoints, DamageIsToldOnAllRanks) {
  const TemporaryFolder folder;
  on_ranks(3, [&](int rank) {
    Training run({3, "fsdp=3", true, false}, 7);
    save_checkpoint(folder.file("checkpoint-1"), run.content());
    EXPECT_EQ(damage_of(folder.file("checkpoint-1")), "");
    const std::string file = folder.file("checkpoint-1/state-00002-of-00003.safetensors");
    (void)gather_texts(*joined_world(), "");  // no rank reads now
    if (rank == 0) fs::resize_file(file, fs::file_size(file) - 1);
    EXPECT_NE(damage_of(folder.file("checkpoint-1")).find(file), std::string::npos);
  });
}

TEST(Checkpoints, WhatInterruptedSavesLeaveIsDeleted) {
  const TemporaryFolder folder;
  const std::vector<std::string> left = {"config.json.partial", "model-00001-of-00002.safetensors.partial",
                                         "trainer_state.json.tmp123.0"};
  const std::vector<std::string> others = {"config.json", "notes.partial", "trainer_state.json.tmp", "x.json.tmp1.y"};
  for (const auto* names : {&left, &others})
    for (const std::string& name : *names) write_file(folder.file(name), "x");
  auto deleted = remove_partial_checkpoints(folder.file(""));
  std::sort(deleted.begin(), deleted.end());
  std::vector<std::string> expected;
  for (const std::string& name : left) expected.push_back(folder.file(name));
  EXPECT_EQ(deleted, expected);
  for (const std::string& name : others) EXPECT_TRUE(fs::exists(folder.file(name))) << name;
}

TEST(Checkpoints, LaterOnesAreSetAside) {
  const TemporaryFolder folder;
  for (const int step : {2, 4, 6}) write_file_in(folder.file("checkpoint-" + std::to_string(step)), "manifest.json");
  EXPECT_EQ(set_checkpoints_aside(folder.file(""), 2),
            (std::vector{folder.file("checkpoint-4"), folder.file("checkpoint-6")}));
  write_file_in(folder.file("checkpoint-6"), "manifest.json");
  set_checkpoints_aside(folder.file(""), 4);
  EXPECT_EQ(checkpoints_in(folder.file("")), (std::map<std::int64_t, std::string>{{2, folder.file("checkpoint-2")}}));
  for (const char* name : {"checkpoint-4.replaced", "checkpoint-6.replaced", "checkpoint-6.replaced2"})
    EXPECT_TRUE(fs::exists(folder.file(name) + "/manifest.json")) << name;
}

TEST(Checkpoints, OnlyTheNewestAreKept) {
  const TemporaryFolder folder;
  const FreshRank rank;
  for (const int step : {9, 10, 100}) {
    CheckpointContent content;
    content.states["model"].add({"x", Tensor::from<float>({2}, {1, static_cast<float>(step)}), {}});
    save_checkpoint(folder.file("checkpoint-" + std::to_string(step)), content);
  }
  CheckpointContent replaced;
  replaced.states["model"].add({"y", Tensor::from<float>({1}, {5}), {}});
  save_checkpoint(folder.file("checkpoint-100"), replaced);
  const Tensor y = Tensor::from<float>({1}, {0});
  StateDict state;
  state.add({"y", y, {}});
  Checkpoint(folder.file("checkpoint-100")).load("model", state);
  EXPECT_EQ(y.item(), 5);
  keep_newest_checkpoints(folder.file(""), 2);
  EXPECT_EQ(
      checkpoints_in(folder.file("")),
      (std::map<std::int64_t, std::string>{{10, folder.file("checkpoint-10")}, {100, folder.file("checkpoint-100")}}));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.file("")), {}), 2);
}

}  // namespace
}  // namespace tessera
