// SPDX-License-Identifier: Apache-2.0
// Layers in a loop train as the same layers one after the other, on every mesh, and have the same state dict.
#include "tessera/nn/scan_layers.h"

#include <gtest/gtest.h>

#include <mutex>

#include "frontend/on_ranks.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/optim/optimizer.h"

namespace tessera {
namespace {

constexpr std::int64_t kRows = 5;
constexpr std::int64_t kTime = 4;
constexpr int kLayers = 3;

nn::GPT2Config config_of_a_block() {
  nn::GPT2Config config;
  config.n_positions = kTime;
  config.n_embd = 12;
  config.n_head = 3;
  config.n_layer = kLayers;
  config.dtype = DType::kF64;
  config.initializer_range = 0.2;
  config.attn_pdrop = config.resid_pdrop = config.embd_pdrop = 0;
  return config;
}

class Unrolled : public nn::Callable<Unrolled> {
 public:
  Unrolled() {
    for (int i = 0; i < kLayers; ++i) h_.emplace(config_of_a_block());
    add_module("h", h_);
    add_module("norm", norm_);
  }
  Tensor forward(Tensor x) {
    for (auto& block : h_) x = (*block)(x);
    return norm_(x);
  }
  [[nodiscard]] std::string_view class_name() const override { return "Unrolled"; }

 private:
  nn::ModuleList<nn::GPT2Block> h_;
  nn::LayerNorm norm_{12, 1e-5, DType::kF64};
};

class Scanned : public nn::Callable<Scanned> {
 public:
  Scanned() {
    add_module("h", h_);
    add_module("norm", norm_);
  }
  Tensor forward(const Tensor& x) { return norm_(h_(x)); }
  [[nodiscard]] nn::ScanLayers<nn::GPT2Block>& h() { return h_; }
  [[nodiscard]] std::string_view class_name() const override { return "Scanned"; }

 private:
  nn::ScanLayers<nn::GPT2Block> h_{kLayers, config_of_a_block()};
  nn::LayerNorm norm_{12, 1e-5, DType::kF64};
};

Tensor batch_at(const Mesh& mesh, int step) {
  std::vector<double> values;
  for (int i = 0; i < kRows * kTime * 12; ++i) values.push_back(((7 * i + 3 * step + i * i / 5) % 13) / 13.0 - 0.5);
  const Tensor x = Tensor::from<double>({kRows, kTime, 12}, values);
  SpecEntry rows;
  for (const auto& axis : mesh.axes())
    if (axis.name != "model") rows.push_back(axis.name);
  if (!rows.empty()) mark_sharding(x, mesh, PartitionSpec({PartitionSpec::Entry(rows), {}, {}}));
  return x;
}

struct Course {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> weights;
};

std::map<std::string, std::vector<double>> values_of(const nn::Module& model) {
  std::map<std::string, std::vector<double>> out;
  for (const auto& entry : model.state_dict().entries()) out[entry.name] = entry.tensor.to_vector<double>();
  return out;
}

template <class M>
Course course(M& model, const Mesh& mesh) {
  optim::AdamW optimizer(model.parameters(), {.learning_rate = 1e-2, .weight_decay = 0.1});
  Course out;
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    const Tensor y = model(batch_at(mesh, step));
    const Tensor loss = mean(y * y * y);
    loss.backward();
    optimizer.step();
    mark_step();
    out.losses.push_back(loss.item());
  }
  out.weights = values_of(model);
  return out;
}

void expect_equal(const Course& got, const Course& expected) {
  for (std::size_t i = 0; i < got.losses.size(); ++i)
    EXPECT_NEAR(got.losses[i], expected.losses[i], 1e-9 * (1 + std::abs(expected.losses[i]))) << "step " << i;
  ASSERT_EQ(got.weights.size(), expected.weights.size());
  for (const auto& [name, values] : expected.weights) {
    const auto found = got.weights.find(name);
    ASSERT_NE(found, got.weights.end()) << name;
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(found->second[i], values[i], 1e-7) << name << " " << i;
  }
}

// Both models on this rank, from the same initial values.
struct Courses {
  Course scanned;
  Course unrolled;
};
Courses courses(const std::string& layout, bool fsdp, bool checkpoint) {
  const Mesh mesh = Mesh::parse(layout);
  set_default_mesh(mesh);
  manual_seed(7);
  Scanned scanned;
  if (checkpoint) scanned.h().set_checkpoint();
  Unrolled unrolled;
  const auto policy = transformer_auto_wrap_policy({"GPT2Block"});
  if (fsdp) {
    fully_shard(scanned, {.mesh = mesh, .auto_wrap_policy = policy});
    fully_shard(unrolled, {.mesh = mesh, .auto_wrap_policy = policy});
  }
  unrolled.load_state_dict(scanned.state_dict());
  mark_step();
  return {course(scanned, mesh), course(unrolled, mesh)};
}

TEST(ScanLayers, TrainsAsTheLayersOneAfterTheOther) {
  Course reference;
  {
    const FreshRank rank;
    for (const bool checkpoint : {false, true}) {
      const Courses both = courses("data=1", false, checkpoint);
      expect_equal(both.scanned, both.unrolled);
      reference = both.unrolled;
    }
  }
  struct Case {
    int ranks;
    const char* mesh;
    bool fsdp;
    bool checkpoint;
  };
  for (const Case& one :
       {Case{2, "data=2", false, false}, Case{2, "fsdp=2", true, false}, Case{3, "fsdp=3", true, true},
        Case{4, "data=2,fsdp=2", true, false}, Case{6, "data=2,fsdp=3", true, false}}) {
    SCOPED_TRACE(std::string(one.mesh) + (one.fsdp ? " with FSDP" : ""));
    Courses both;
    std::mutex mutex;
    on_ranks(one.ranks, [&](int rank) {
      Courses mine = courses(one.mesh, one.fsdp, one.checkpoint);
      const std::scoped_lock lock(mutex);
      if (rank == 0) both = std::move(mine);
    });
    expect_equal(both.scanned, both.unrolled);
    expect_equal(both.scanned, reference);
  }
}

TEST(ScanLayers, HasTheStateDictOfAModuleList) {
  const FreshRank rank;
  const Scanned scanned;
  const Unrolled unrolled;
  std::vector<std::string> names;
  std::vector<std::string> expected;
  for (const auto& entry : scanned.state_dict().entries()) names.push_back(entry.name);
  for (const auto& entry : unrolled.state_dict().entries()) expected.push_back(entry.name);
  std::sort(names.begin(), names.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(names, expected);
  EXPECT_EQ(scanned.parameter_count(), unrolled.parameter_count());
}

TEST(ScanLayers, LoadsTheLayersOfAModuleList) {
  const FreshRank rank;
  manual_seed(2);
  const Unrolled unrolled;
  Scanned scanned;
  scanned.load_state_dict(unrolled.state_dict());
  mark_step();
  EXPECT_EQ(values_of(scanned), values_of(unrolled));
}

class Scaled : public nn::Callable<Scaled> {
 public:
  Scaled() { register_module("block", block_); }
  Tensor forward(const Tensor& x, const Tensor& scale) { return block_(x) * scale; }

 private:
  nn::GPT2Block block_{config_of_a_block()};
};

class ScaledLayers : public nn::Callable<ScaledLayers> {
 public:
  ScaledLayers() { register_module("h", h); }
  Tensor forward(const Tensor& x, const Tensor& scale) { return h(x, scale); }
  nn::ScanLayers<Scaled> h{kLayers};
};

// The loss, and the gradient of an argument that every layer sees, after one update.
std::vector<double> loss_and_gradient(const std::string& layout, bool checkpoint) {
  const Mesh mesh = Mesh::parse(layout);
  set_default_mesh(mesh);
  manual_seed(5);
  ScaledLayers layers;
  layers.h.set_checkpoint(checkpoint);
  if (mesh.device_count() > 1)
    fully_shard(layers, {.mesh = mesh, .auto_wrap_policy = transformer_auto_wrap_policy({"Scaled"})});
  optim::SGD optimizer(layers.parameters(), {.learning_rate = 0.1});
  Tensor scale = Tensor::from<double>({kTime, 1}, {0.9, -0.7, 0.8, 1.1}).set_requires_grad();
  std::vector<double> out;
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    scale.zero_grad();
    const Tensor y = layers(batch_at(mesh, step), scale);
    const Tensor loss = mean(y * y * y);
    loss.backward();
    optimizer.step();
    mark_step();
    out = scale.grad().to_vector<double>();
    out.push_back(loss.item());
  }
  return out;
}

TEST(ScanLayers, ShardedLayersGetTheArgumentsOfAllLayers) {
  std::vector<double> expected;
  {
    const FreshRank rank;
    expected = loss_and_gradient("data=1", false);
  }
  for (const auto& [ranks, layout] : {std::pair(2, "fsdp=2"), std::pair(3, "fsdp=3"), std::pair(6, "data=2,fsdp=3")}) {
    SCOPED_TRACE(layout);
    std::vector<double> values;
    std::mutex mutex;
    on_ranks(ranks, [&](int rank) {
      std::vector<double> mine = loss_and_gradient(layout, ranks == 3);
      const std::scoped_lock lock(mutex);
      if (rank == 0) values = std::move(mine);
    });
    ASSERT_EQ(values.size(), expected.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(values[i], expected[i], 1e-9 * (1 + std::abs(expected[i]))) << i;
  }
}

TEST(ScanLayers, GathersOneLayerAtATime) {
  on_ranks(2, [](int) {
    const Mesh mesh = Mesh::parse("fsdp=2");
    set_default_mesh(mesh);
    Scanned scanned;
    fully_shard(scanned, {.mesh = mesh, .auto_wrap_policy = transformer_auto_wrap_policy({"GPT2Block"})});
    const Tensor y = scanned(batch_at(mesh, 0));
    const Tensor loss = mean(y * y);
    loss.backward();
    mark_step();
    int in_loops = 0;
    for (const auto& note : compiled_programs().back().notes) {
      const std::int64_t rounds = static_cast<std::int64_t>(note.rounds);
      EXPECT_LE(note.bytes, rounds * 12 * 48 * 8) << note.collective << ": " << note.reason;  // a weight of one layer
      in_loops += rounds == kLayers ? 1 : 0;
    }
    EXPECT_GE(in_loops, 20);  // each parameter is gathered in the forward and in the backward pass
  });
}

}  // namespace
}  // namespace tessera
