// SPDX-License-Identifier: Apache-2.0
// The names of PyTorch/XLA on real processes: save, load, rendezvous, is_master_ordinal, optimizer_step.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "checkpoint/small_gpt2.h"
#include "support/mpi_main.h"
#include "support/temporary_folder.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/save.h"
#include "tessera/frontend/execution/rendezvous.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/tensor/safetensors.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::world;

// The ranks of mpirun with a new trace for each test, and a folder that all of them use.
class Names : public ::testing::Test {
 protected:
  Names() : context_(world().rank(), world().size()), scope_(context_) {
    join_world(world().shared_group());
    path_ = rendezvous("folder", {.payload = folder_.file("")}).front();
  }
  ~Names() override { rendezvous("end of test"); }
  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;

  [[nodiscard]] std::string file(const std::string& name) const { return path_ + name; }
  [[nodiscard]] static Mesh mesh() { return Mesh({{"fsdp", world().size()}}); }

 private:
  RankContext context_;
  RankScope scope_;
  testing::TemporaryFolder folder_;
  std::string path_;
};

TEST_F(Names, ARendezvousGathersPayloads) {
  const auto all = rendezvous("payloads", {.payload = std::string(static_cast<std::size_t>(world().rank()), 'x')});
  ASSERT_EQ(isize(all), world().size());
  for (int rank = 0; rank < world().size(); ++rank) EXPECT_EQ(isize(at(all, rank)), rank);
}

TEST_F(Names, OneRankOfThisNodeIsTheMaster) {
  EXPECT_EQ(is_master_ordinal(), world().rank() == 0);
  EXPECT_EQ(is_master_ordinal({.local = false}), world().rank() == 0);
}

TEST_F(Names, SaveWritesOneFileOfCompleteArrays) {
  nn::GPT2LMHeadModel model(small_gpt2());
  fully_shard(model, {.mesh = mesh()});
  if (world().rank() == 0) std::ofstream(file("m.safetensors.partial")) << "of the user";
  save(model.state_dict(), file("m.safetensors"));
  const SafetensorsFile saved = read_safetensors(file("m.safetensors"));
  EXPECT_EQ(saved.tensors.size(), model.state_dict().entries().size());
  for (const auto& [name, value] : values_of(model)) {
    ASSERT_NE(saved.find(name), nullptr) << name;
    EXPECT_TRUE(std::ranges::equal(saved.find(name)->bytes(), value.bytes())) << name;
  }
  EXPECT_TRUE(fs::exists(file("m.safetensors.partial")));
}

TEST_F(Names, LoadReadsOnlyTheShardsOfARank) {
  nn::GPT2LMHeadModel first(small_gpt2());
  save(first.state_dict(), file("m.safetensors"));
  manual_seed(7);
  nn::GPT2LMHeadModel second(small_gpt2());
  fully_shard(second, {.mesh = mesh()});
  const std::uint64_t before = bytes_read_from_files();
  second.load_state_dict(load(file("m.safetensors")));
  const std::uint64_t header = bytes_read_from_files() - before;
  std::uint64_t needed = 0;
  for (const auto& entry : second.state_dict().entries())
    needed += static_cast<std::uint64_t>(stored_shard(entry.tensor).shard.bytes().size());
  EXPECT_LE(bytes_read_from_files() - before, header + needed);
  EXPECT_EQ(values_of(first), values_of(second));
}

TEST_F(Names, LoadGivesTheTensorsOfAFile) {
  SafetensorsFile content;
  content.tensors.emplace_back("x", Literal::from<double>({2, 2}, {1, 2, 3, 4}));
  content.tensors.emplace_back("n", Literal::from<std::int64_t>({1}, {7}));
  if (world().rank() == 0) write_safetensors(file("x.safetensors"), content);
  rendezvous("written");
  const StateDict loaded = load(file("x.safetensors"));
  ASSERT_NE(loaded.find("x"), nullptr);
  EXPECT_EQ(sum(loaded.find("x")->tensor).item(), 10);
  EXPECT_EQ(loaded.find("n")->tensor.to_vector<std::int64_t>(), std::vector<std::int64_t>{7});
}

// The gradient of a mean over the rows of all ranks is the mean of the gradients of the ranks.
TEST_F(Names, OptimizerStepAveragesOverTheRanks) {
  const int ranks = world().size();
  Tensor w = Tensor::from<double>({2, 1}, {1, -1});
  w.set_requires_grad();
  optim::SGD optimizer({w}, {.learning_rate = 0.5});
  const auto row = [](int i) { return std::vector<double>{0.5 * i - 1, 3.0 - i}; };
  std::vector<double> own = row(2 * world().rank());
  for (const double x : row(2 * world().rank() + 1)) own.push_back(x);
  const Tensor x = Tensor::from_local_shards(Type::array(DType::kF64, {2 * ranks, 2}), mesh(), {"fsdp", nullptr},
                                             Literal::from<double>({2, 2}, own));
  mean(square(matmul(x, w))).backward();
  optim::optimizer_step(optimizer, {.barrier = true});
  EXPECT_TRUE(w.is_materialized());
  std::vector<double> expected{1, -1};
  for (int i = 0; i < 2 * ranks; ++i) {
    const double y = row(i)[0] - row(i)[1];
    for (std::size_t k = 0; k < 2; ++k) expected[k] -= 0.5 * 2 * y * row(i)[k] / (2 * ranks);
  }
  for (std::size_t k = 0; k < 2; ++k) EXPECT_NEAR(w.to_vector<double>()[k], expected[k], 1e-12);
}

}  // namespace
}  // namespace tessera
