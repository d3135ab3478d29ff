// SPDX-License-Identifier: Apache-2.0
// Checkpoints: saved under one layout and loaded under another, damaged files, and interrupted saves.
#include "tessera/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <csignal>
#include <filesystem>
#include <random>
#include <span>

#include <sys/resource.h>

#include "checkpoint/small_gpt2.h"
#include "frontend/on_ranks.h"
#include "support/temporary_folder.h"
#include "tessera/base/checksum.h"
#include "tessera/base/files.h"
#include "tessera/base/random_access.h"
#include "tessera/fsdp/fsdp.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

// The chain of ranks, meshes and FSDP modes.
const std::vector<Layout> kChain = {{8, "data=2,fsdp=4", true, false}, {3, "model=3", false, true},
                                    {6, "fsdp=2,model=3", true, true}, {1, "data=1", false, false},
                                    {4, "fsdp=4", true, false},        {2, "data=2", false, false}};

struct Training {
  Training(const Layout& layout, std::uint64_t seed) : model(config()) {
    manual_seed(seed);
    shard(model, layout);
    optimizer = std::make_unique<optim::AdamW>(model.parameters(),
                                               optim::AdamWOptions{.learning_rate = 0.01, .weight_decay = 0.1});
  }
  static nn::GPT2Config config() {
    nn::GPT2Config out = small_gpt2();
    out.dtype = DType::kF64;
    return out;
  }
  [[nodiscard]] CheckpointContent content() const {
    CheckpointContent out;
    out.states["model"] = model.state_dict();
    out.states["optimizer"] = optimizer->state_dict();
    JsonObject run;
    run.set("steps", optimizer->step_count());
    out.documents.emplace("run", run);
    return out;
  }
  [[nodiscard]] std::map<std::string, StateDict> states() const { return content().states; }
  // `read` gives the states the values of a checkpoint.
  void load(const std::function<void(const std::map<std::string, StateDict>&)>& read) {
    const auto all = states();
    read(all);
    optimizer->set_step_count(static_cast<std::int64_t>(all.at("optimizer").find("step")->tensor.item()));
  }
  void load(const Checkpoint& from) {
    load([&](const auto& all) {
      for (const auto& [group, state] : all) from.load(group, state);
    });
  }
  nn::GPT2LMHeadModel model;
  std::unique_ptr<optim::Optimizer> optimizer;
};

double largest_difference(const std::map<std::string, Literal>& a, const std::map<std::string, Literal>& b) {
  double most = 0;
  for (const auto& [name, value] : a)
    for (std::size_t i = 0; i < value.data<double>().size(); ++i)
      most = std::max(most, std::abs(value.data<double>()[i] - b.at(name).data<double>()[i]));
  return most;
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
  for (const Layout& layout : {kChain[0], kChain[2]}) {
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
    for (const std::size_t place : {std::size_t{0}, good.size() / 2, good.size() - 2}) {
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
  return boost::json::serialize(all);
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

TEST(Checkpoints, ASaveBesideTheTrainingHasTheValuesOfItsBeginning) {
  for (const Layout& layout : {kChain[0], kChain[2], kChain[3]}) {
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

// Files of this process cannot grow beyond a size.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
};

TEST(Checkpoints, AWriterThatFailsIsReportedAndTheTrainingGoesOn) {
  const TemporaryFolder folder;
  const FileSizeLimit limit(20000);
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
