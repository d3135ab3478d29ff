// SPDX-License-Identifier: Apache-2.0
// Runs that are interrupted and resumed as docs/training.md shows: a load into state_dict() reaches the optimizer itself,
// also its step count, so the results are those of an uninterrupted run.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "frontend/on_ranks.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"
#include "tessera/base/files.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/checkpoint/save.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/nn/batch_norm.h"
#include "tessera/nn/linear.h"
#include "tessera/optim/ema.h"
#include "tessera/optim/factory.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;
using States = std::map<std::string, StateDict>;

struct OptimizerCase {
  const char* name;
  const char* arguments;
};
void PrintTo(const OptimizerCase& one, std::ostream* out) { *out << one.name; }

// The first weight has enough elements for state in 8 bits, and a batch norm has a counter.
class NetToResume : public nn::Callable<NetToResume> {
 public:
  NetToResume() {
    register_module("first", first_);
    register_module("norm", norm_);
    register_module("second", second_);
  }
  Tensor forward(const Tensor& x) { return second_(relu(norm_(first_(x)))); }

 private:
  nn::Linear first_{64, 66}, second_{66, 3};
  nn::BatchNorm1d norm_{66};
};

class ResumedRun {
 public:
  ResumedRun(const OptimizerCase& one, int ranks, std::uint64_t seed) : mesh_({{"data", ranks}}) {
    set_default_mesh(mesh_);
    manual_seed(seed);
    optimizer = optim::make_optimizer(one.name, {{net.parameters(), 0.01}},
                                      {.learning_rate = 0.01, .arguments = one.arguments});
  }
  void steps(int first, int last) {
    for (int step = first; step < last; ++step) {
      std::vector<float> values;
      for (int i = 0; i < 9 * 64; ++i) values.push_back(static_cast<float>(std::sin(0.37 * i + step)));
      const Tensor x = Tensor::from<float>({9, 64}, values);
      mark_sharding(x, mesh_, {"data", {}});
      optimizer->zero_grad();
      mean(square(net(x) - 1.0)).backward();
      optimizer->step();
      mark_step();
    }
  }
  [[nodiscard]] States states() const { return {{"model", net.state_dict()}, {"optimizer", optimizer->state_dict()}}; }
  // The complete values by name. Collective.
  [[nodiscard]] std::map<std::string, Literal> values() const {
    std::map<std::string, Literal> out;
    for (const auto& [group, state] : states())
      for (const NamedTensor& entry : state.entries()) out.emplace(group + "/" + entry.name, entry.tensor.to_host());
    return out;
  }
  [[nodiscard]] std::map<std::string, std::string> state_shardings() const {
    std::map<std::string, std::string> out;
    for (const optim::NamedState& state : optimizer->named_state()) {
      const auto sharding = state.tensor.sharding();
      out.emplace(state.name, sharding ? sharding->str() : "none");
    }
    return out;
  }

 private:
  Mesh mesh_;

 public:
  NetToResume net;
  std::unique_ptr<optim::Optimizer> optimizer;
};

class ResumedOptimizers : public ::testing::TestWithParam<OptimizerCase> {};

TEST_P(ResumedOptimizers, AnInterruptedRunGivesTheBitsOfAnUninterruptedOne) {
  constexpr int kRanks = 3;
  const TemporaryFolder folder;
  std::map<std::string, Literal> expected;
  std::map<std::string, std::string> shardings;
  RandomState random;  // of the interrupted run: 8-bit states are rounded at random
  on_ranks(kRanks, [&](int rank) {
    ResumedRun run(GetParam(), kRanks, 7);
    run.steps(0, 7);
    auto values = run.values();
    if (rank == 0) expected = std::move(values), shardings = run.state_shardings();
  });
  on_ranks(kRanks, [&](int rank) {
    ResumedRun run(GetParam(), kRanks, 7);
    const States states = run.states();  // made before the steps: it refers to the current values
    run.steps(0, 4);
    if (rank == 0) random = random_state();
    CheckpointWriter writer;
    writer.begin(folder.file("checkpoint-4"), {.states = states, .documents = {}});
    EXPECT_EQ(writer.finish()->error, "");
  });
  on_ranks(kRanks, [&](int rank) {
    ResumedRun run(GetParam(), kRanks, 99);
    ASSERT_TRUE(load_newest_checkpoint(folder.file(""), run.states()));
    EXPECT_EQ(run.optimizer->step_count(), 4);
    set_random_state(random);
    run.steps(4, 7);
    const auto values = run.values();
    ASSERT_EQ(values.size(), expected.size());
    for (const auto& [name, value] : expected) EXPECT_EQ(values.at(name), value) << name;
    EXPECT_EQ(run.state_shardings(), shardings) << "rank " << rank;
  });
}

INSTANTIATE_TEST_SUITE_P(Names, ResumedOptimizers,
                         ::testing::Values(OptimizerCase{"adamw_torch", "amsgrad=true"}, OptimizerCase{"adafactor", ""},
                                           OptimizerCase{"muon", ""}, OptimizerCase{"lion", ""},
                                           OptimizerCase{"sgd", "momentum=0.9,dampening=0.1"},
                                           OptimizerCase{"adamw_8bit", ""}),
                         [](const auto& info) { return std::string(info.param.name); });

constexpr OptimizerCase kAdamWCase{"adamw_torch", ""};

// State that no gradient has placed yet is loaded completely on each rank, and must not stay so.
TEST(Resume, LoadedStateIsShardedOverTheBatchFromTheFirstStepOn) {
  constexpr int kRanks = 3;
  const TemporaryFolder folder;
  on_ranks(kRanks, [&](int) {
    ResumedRun run(kAdamWCase, kRanks, 7);
    run.steps(0, 1);
    save_checkpoint(folder.file("checkpoint-1"), {.states = run.states(), .documents = {}});
  });
  on_ranks(kRanks, [&](int) {
    ResumedRun run(kAdamWCase, kRanks, 7);
    load_checkpoint(folder.file("checkpoint-1"), run.states());
    run.steps(1, 2);
    const StateDict state = run.optimizer->state_dict();
    EXPECT_EQ(state.find("exp_avg.first.weight")->tensor.local_shard().type().dim(0), 66 / kRanks);
  });
}

TEST(Resume, EveryWayToLoadSetsTheNumbers) {
  const TemporaryFolder folder;
  const FreshRank rank;
  const auto with_average = [](ResumedRun& run, optim::ExponentialMovingAverage& average) {
    States out = run.states();
    out.emplace("average", average.state_dict());
    return out;
  };
  ResumedRun run(kAdamWCase, 1, 7);
  optim::ExponentialMovingAverage average(run.net.parameters());
  for (int step = 0; step < 3; ++step) {
    run.steps(step, step + 1);
    if (step > 0) average.update();
  }
  mark_step();
  save_checkpoint(folder.file("checkpoint-3"), {.states = with_average(run, average), .documents = {}});
  save(run.optimizer->state_dict(), folder.file("optimizer.safetensors"));
  save(average.state_dict(), folder.file("average.safetensors"));

  const std::vector<std::function<void(ResumedRun&, optim::ExponentialMovingAverage&)>> loaders{
      [&](auto& to, auto& average_to) { load_checkpoint(folder.file("checkpoint-3"), with_average(to, average_to)); },
      [&](auto& to, auto& average_to) {
        EXPECT_TRUE(load_newest_checkpoint(folder.file(""), with_average(to, average_to)));
      },
      [&](auto& to, auto& average_to) {
        const Checkpoint from(folder.file("checkpoint-3"));
        for (const auto& [group, state] : with_average(to, average_to)) from.load(group, state);
      },
      [&](auto& to, auto& average_to) {
        to.optimizer->load_state_dict(load(folder.file("optimizer.safetensors")));
        average_to.load_state_dict(load(folder.file("average.safetensors")));
      },
      [&](auto& to, auto& average_to) {
        to.optimizer->load_state_dict(run.optimizer->state_dict());
        average_to.load_state_dict(average.state_dict());
      }};
  for (std::size_t i = 0; i < loaders.size(); ++i) {
    ResumedRun other(kAdamWCase, 1, 8);
    optim::ExponentialMovingAverage other_average(other.net.parameters());
    loaders[i](other, other_average);
    EXPECT_EQ(other.optimizer->step_count(), 3) << i;
    EXPECT_EQ(other_average.update_count(), 2) << i;
  }
}

TEST(Resume, AStateDictMayExistLongerThanItsOptimizer) {
  const TemporaryFolder folder;
  const FreshRank rank;
  StateDict state;
  {
    ResumedRun run(kAdamWCase, 1, 7);
    run.steps(0, 2);
    state = run.optimizer->state_dict();
  }
  save_checkpoint(folder.file("checkpoint-2"), {.states = {{"optimizer", state}}, .documents = {}});
  load_checkpoint(folder.file("checkpoint-2"), {{"optimizer", state}});
  EXPECT_EQ(state.find("step")->tensor.item(), 2);
}

// ---- checkpoints from which a run cannot continue -----------------------------------------------------------------------

class OddCheckpoints : public ::testing::Test {
 protected:
  void save(int step, const States& states, const char* document = "run_state") const {
    save_checkpoint(path(step),
                    {.states = states, .documents = {{"trainer_state", JsonObject()}, {document, JsonObject()}}});
  }
  [[nodiscard]] std::string path(int step) const { return folder_.file("checkpoint-" + std::to_string(step)); }
  [[nodiscard]] std::string error(const States& states) const {
    return testing::error_of([&] { load_newest_checkpoint(folder_.file(""), states); });
  }
  const FreshRank rank_;
  const TemporaryFolder folder_;
  ResumedRun run_{kAdamWCase, 1, 7};
};

TEST_F(OddCheckpoints, WithoutTheOptimizerTheyCannotContinueARun) {
  for (const int step : {1, 2}) save(step, {{"model", run_.net.state_dict()}}, "config");
  const std::string reason =
      path(2) +
      " contains no state of the optimizer, because it was written with --save_only_model: no run can be resumed from "
      "it, but another run can start from its weights (tessera checkpoint consolidate, then --model_name_or_path)";
  EXPECT_EQ(error(run_.states()), "no checkpoint in " + folder_.file("") + " can continue its run: " + reason);
  EXPECT_EQ(testing::error_of([&] { load_checkpoint(path(2), run_.states()); }), reason);
  EXPECT_EQ(error({{"model", run_.net.state_dict()}}), "no error");
}

TEST_F(OddCheckpoints, TheOnesBeforeThemAreLoaded) {
  save(1, run_.states());
  save(2, {{"model", run_.net.state_dict()}}, "config");
  write_file(path(3), "not a folder");
  ::testing::internal::CaptureStderr();
  const auto loaded = load_newest_checkpoint(folder_.file(""), run_.states());
  const std::string warnings = ::testing::internal::GetCapturedStderr();
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->folder(), path(1));
  EXPECT_NE(warnings.find(path(2) + " contains no state of the optimizer"), std::string::npos) << warnings;
  EXPECT_NE(warnings.find("; " + path(1) + " is loaded"), std::string::npos) << warnings;
}

TEST_F(OddCheckpoints, AMissingManifestIsToldInOneSentence) {
  save(1, run_.states());
  save(2, run_.states());
  fs::remove(path(2) + "/manifest.json");
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(load_newest_checkpoint(folder_.file(""), run_.states()));
  const std::string warnings = ::testing::internal::GetCapturedStderr();
  const std::string expected = path(2) + " is not a complete checkpoint: it contains no manifest.json";
  EXPECT_NE(warnings.find(expected + "; the next older checkpoint is tried"), std::string::npos) << warnings;
  EXPECT_EQ(warnings.find("is not a checkpoint"), std::string::npos) << warnings;
  EXPECT_EQ(damage_of(path(2)), expected);
}

// As on a disk that fails, or in the folder of another user.
TEST_F(OddCheckpoints, TheOneBeforeAnUnreadableManifestIsLoaded) {
  for (const int step : {1, 2}) save(step, run_.states());
  const std::string manifest = path(2) + "/manifest.json";
  fs::remove(manifest);
  fs::create_symlink("manifest.json", manifest);  // to itself
  const std::string expected = path(2) + " is damaged: cannot read " + manifest + ": Too many levels of symbolic links";
  EXPECT_EQ(damage_of(path(2)), expected);
  EXPECT_EQ(testing::error_of([&] { load_checkpoint(path(2), run_.states()); }), expected);
  ::testing::internal::CaptureStderr();
  const auto loaded = load_newest_checkpoint(folder_.file(""), run_.states());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "warning: " + expected + "; the next older checkpoint is tried\n");
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->folder(), path(1));
  keep_newest_checkpoints(folder_.file(""), 1);
  EXPECT_EQ(checkpoints_in(folder_.file("")).size(), 2U) << "an unreadable one may be complete";
}

TEST_F(OddCheckpoints, LinksToNothingAreNamed) {
  save(1, run_.states());
  fs::create_symlink("/no/such", path(2));
  const std::string expected =
      path(2) + " is a symbolic link to /no/such, which does not exist; the newest checkpoint " + "there is " + path(1);
  EXPECT_EQ(damage_of(path(2)), expected);
  EXPECT_EQ(testing::error_of([&] { load_checkpoint(path(2), run_.states()); }),
            "cannot load a checkpoint: " + expected);
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(load_newest_checkpoint(folder_.file(""), run_.states()));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "warning: " + expected + "; the next older checkpoint is tried\n");
  const std::string manifest = path(1) + "/manifest.json";
  fs::rename(manifest, folder_.file("moved"));
  fs::create_symlink("gone", manifest);
  EXPECT_EQ(damage_of(path(1)), path(1) + " is damaged: cannot read " + manifest + ": " + manifest +
                                    " is a symbolic link to " + path(1) + "/gone, which does not exist");
}

// A run that finds only damaged checkpoints starts from its initial values, or keeps the values that it has.
TEST_F(OddCheckpoints, DamagedOnesLeaveTheStatesAsTheyAre) {
  run_.steps(0, 2);
  save(1, run_.states());
  const std::string file = path(1) + "/state-00001-of-00001.safetensors";
  std::string bytes = read_file(file);
  bytes.back() ^= 1;
  write_file(file, bytes);
  for (const int steps : {0, 1}) {
    std::map<std::string, Literal> values[2];  // without and with a try to load
    for (const bool loads : {false, true}) {
      manual_seed(9);
      ResumedRun run(kAdamWCase, 1, 9);
      run.steps(0, steps);
      if (loads) {
        EXPECT_FALSE(load_newest_checkpoint(folder_.file(""), run.states()));
      }
      run.steps(steps, 3);
      values[loads ? 1 : 0] = run.values();
    }
    EXPECT_TRUE(values[0] == values[1]) << steps;
  }
}

// A second copy of large values would need too much memory.
TEST_F(OddCheckpoints, DamagedOnesThatReplaceLargeStatesAreAnError) {
  const auto filled = [](double value) {
    StateDict out;
    out.add({"weight", Tensor::full(Type::array(DType::kF64, {2100, 1050}), value), {}});
    mark_step();
    return out;
  };
  for (const int step : {1, 2}) save(step, {{"model", filled(2)}});
  const auto damage = [&](int step) {
    const std::string file = path(step) + "/state-00001-of-00001.safetensors";
    std::string bytes = read_file(file);
    bytes.back() ^= 1;
    write_file(file, bytes);
  };
  const StateDict now = filled(3);
  damage(2);
  EXPECT_TRUE(load_newest_checkpoint(folder_.file(""), {{"model", now}}));
  EXPECT_EQ(mean(now.find("weight")->tensor).item(), 2);
  damage(1);
  EXPECT_NE(error({{"model", now}}).find("the states have lost the values that they had before"), std::string::npos);
}

TEST_F(OddCheckpoints, TheStateOfAnotherOptimizerIsNamedFirst) {
  save(1, run_.states());
  EXPECT_EQ(Checkpoint(path(1)).class_name("optimizer"), "AdamW");
  const ResumedRun other({"sgd", "momentum=0.9"}, 1, 7);
  const std::string text = error({{"optimizer", other.optimizer->state_dict()}});
  const std::string first = path(1) +
                            " (optimizer) does not fit the state that it loads: the state of SGD is needed, the source "
                            "has that of AdamW:\n  missing momentum_buffer.first.weight\n";
  EXPECT_TRUE(text.starts_with(first)) << text;
  EXPECT_EQ(text.find("did you mean"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\n  and 4 more unexpected names")) << text;
}

// A checkpoint of an older version has no names of classes.
TEST_F(OddCheckpoints, WithoutTheClassOfTheOptimizerTheyAreLoaded) {
  run_.steps(0, 2);
  StateDict old;
  for (const NamedTensor& entry : run_.optimizer->state_dict().entries()) old.add(entry);
  save(1, {{"optimizer", old}});
  EXPECT_EQ(read_file(path(1) + "/manifest.json").find("classes"), std::string::npos);
  ResumedRun same(kAdamWCase, 1, 8);
  load_checkpoint(path(1), {{"optimizer", same.optimizer->state_dict()}});
  EXPECT_EQ(same.optimizer->step_count(), 2);
  const ResumedRun other({"lion", ""}, 1, 7);
  const std::string text = error({{"optimizer", other.optimizer->state_dict()}});
  EXPECT_NE(text.find("does not fit the state that it loads:\n  unexpected exp_avg_sq."), std::string::npos) << text;
}

}  // namespace
}  // namespace tessera
