// SPDX-License-Identifier: Apache-2.0
// A loop over layers with several arguments gives the values and gradients of the same layers one after the other, on
// every mesh: for the carry, for the parameters, and for the arguments that every layer sees.
#include "tessera/nn/scan_layers.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <optional>

#include "frontend/on_ranks.h"
#include "nn/layer_checks.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/nn/containers.h"
#include "tessera/nn/initializers.h"

namespace tessera::nn {
namespace {

constexpr std::int64_t kLayerRows = 5;
constexpr std::int64_t kLayerWidth = 7;
constexpr int kLayerCount = 3;

/// An argument that every layer sees.
struct Places {
  Tensor shift;
  std::optional<Tensor> gate;
};

/// Two arguments are the carry. The mask, the places and the power are equal in all layers.
class Mix : public Callable<Mix> {
 public:
  Mix() { weight_ = add_parameter("weight", Type::array(DType::kF64, {kLayerWidth, kLayerWidth}), normal(0, 0.4)); }
  std::pair<Tensor, Tensor> forward(const Tensor& x, const Tensor& memory, const Tensor& mask, const Places& places,
                                    int power) {
    Tensor next = tanh(matmul(x, weight_) * mask + places.shift);
    for (int i = 1; i < power; ++i) next = next * x;
    return {next, memory * *places.gate + next};
  }

 private:
  Tensor weight_;
};

/// The carry as a struct, which also collects a loss of each layer.
struct Stream {
  Tensor x;
  std::vector<Tensor> losses;
  static void fields(auto& self, auto&& visit) {
    visit("x", self.x);
    visit("losses", self.losses);
  }
};

class Collect : public Callable<Collect> {
 public:
  Collect() { weight_ = add_parameter("weight", Type::array(DType::kF64, {kLayerWidth, kLayerWidth}), normal(0, 0.4)); }
  Stream forward(const Stream& in, const Tensor& scale) {
    const Tensor next = tanh(matmul(in.x, weight_)) * scale;
    return {next, {in.losses.at(0) + sum(square(next))}};
  }

 private:
  Tensor weight_;
};

/// A layer whose result has not the type of its carry.
class Wrong : public Callable<Wrong> {
 public:
  explicit Wrong(int kind) : kind_(kind), weight_(add_parameter("weight", Type::array(DType::kF64, {1}), ones())) {}
  std::vector<Tensor> forward(const std::vector<Tensor>& in) {
    const Tensor next = in.at(0) * weight_;
    if (kind_ == 0) return {next, next};
    return {next.to(DType::kF32)};
  }

 private:
  int kind_;
  Tensor weight_;
};

template <class Layers>
std::pair<Tensor, Tensor> run(Layers& layers, std::pair<Tensor, Tensor> carry, const Tensor& mask,
                              const Places& places) {
  if constexpr (requires { layers.layer(); })
    return layers(carry.first, carry.second, mask, places, 2);
  else
    for (const auto& layer : layers) carry = (*layer)(carry.first, carry.second, mask, places, 2);
  return carry;
}

using Values = std::map<std::string, std::vector<double>>;

struct Inputs {
  std::map<std::string, Tensor> all;
  explicit Inputs(const Mesh& mesh) {
    SpecEntry rows;
    for (const auto& axis : mesh.axes()) rows.push_back(axis.name);
    for (const char* name : {"x", "memory", "mask"})
      all[name] = numbers({kLayerRows, kLayerWidth}, static_cast<int>(all.size()));
    for (auto& [name, tensor] : all) mark_sharding(tensor, mesh, PartitionSpec({PartitionSpec::Entry(rows), {}}));
    all["shift"] = numbers({kLayerWidth}, 4);
    all["gate"] = numbers({kLayerRows, 1}, 5);
    for (auto& [name, tensor] : all) tensor.set_requires_grad();
  }
};

// The gradients of all inputs and of the layers, and the results.
template <class Layers>
Values values_with(Layers& layers, const Mesh& mesh) {
  Inputs inputs(mesh);
  auto& in = inputs.all;
  const auto [x, memory] =
      run(layers, {in["x"], in["memory"]}, in["mask"], Places{.shift = in["shift"], .gate = in["gate"]});
  const Tensor loss = weighted_sum(x) + sum(square(memory));
  loss.backward();
  mark_step();
  Values out{{"result x", values_of(x)}, {"result memory", values_of(memory)}};
  for (auto& [name, tensor] : in) out[name] = values_of(tensor.grad());
  for (const Tensor& weight : layers.parameters())
    for (const double value : values_of(weight.grad())) out["weight"].push_back(value);
  return out;
}

struct Both {
  Values loop;
  Values one_by_one;
};
Both both_on(const std::string& layout, bool checkpoint) {
  const Mesh mesh = Mesh::parse(layout);
  set_default_mesh(mesh);
  manual_seed(3);
  ScanLayers<Mix> loop(kLayerCount);
  loop.set_checkpoint(checkpoint);
  ModuleList<Mix> list;
  for (int i = 0; i < kLayerCount; ++i) list.emplace();
  list.load_state_dict(loop.state_dict());
  mark_step();
  return {values_with(loop, mesh), values_with(list, mesh)};
}

void expect_equal(const Values& values, const Values& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (const auto& [name, numbers] : expected) {
    SCOPED_TRACE(name);
    expect_near(values.at(name), numbers, 1e-11);
  }
}

TEST(ScanLayersArguments, SeveralTensorsAreCarriedAndOthersReachEveryLayer) {
  Values reference;
  {
    const FreshRank rank;
    reference = both_on("data=1", false).one_by_one;
    for (const auto& [name, numbers] : reference)  // a gradient of zeros would show nothing
      EXPECT_GT(*std::max_element(numbers.begin(), numbers.end()), 1e-4) << name;
    for (const bool checkpoint : {false, true}) expect_equal(both_on("data=1", checkpoint).loop, reference);
  }
  for (const auto& [ranks, layout] : {std::pair(2, "data=2"), std::pair(3, "data=3"), std::pair(6, "data=2,model=3")}) {
    SCOPED_TRACE(layout);
    Both both;
    std::mutex mutex;
    on_ranks(ranks, [&](int rank) {
      Both mine = both_on(layout, ranks == 3);
      const std::scoped_lock lock(mutex);
      if (rank == 0) both = std::move(mine);
    });
    expect_equal(both.loop, reference);
    expect_equal(both.one_by_one, reference);
  }
}

TEST(ScanLayersArguments, TheCarryMayBeAStruct) {
  const FreshRank rank;
  ScanLayers<Collect> loop(kLayerCount);
  ModuleList<Collect> list;
  for (int i = 0; i < kLayerCount; ++i) list.emplace();
  list.load_state_dict(loop.state_dict());
  mark_step();
  Tensor scale = numbers({kLayerRows, 1}, 2).set_requires_grad();
  const Stream start{numbers({kLayerRows, kLayerWidth}), {Tensor::full(Type::scalar(DType::kF64), 0)}};
  const auto gradient = [&](const Stream& end) {
    scale.zero_grad();
    (weighted_sum(end.x) + end.losses.at(0)).backward();
    mark_step();
    return values_of(scale.grad());
  };
  const Stream end = loop(start, scale);
  Stream expected = start;
  for (const auto& layer : list) expected = (*layer)(expected, scale);
  expect_near(values_of(end.x), values_of(expected.x));
  expect_near({end.losses.at(0).item()}, {expected.losses.at(0).item()});
  const auto of_loop = gradient(loop(start, scale));
  for (Stream again = start; const auto& layer : list) expected = again = (*layer)(again, scale);
  expect_near(of_loop, gradient(expected));
}

TEST(ScanLayersArguments, ALayerThatChangesTheCarryIsAnError) {
  const FreshRank rank;
  const std::vector<Tensor> start{numbers({3})};
  ScanLayers<Wrong> more(kLayerCount, 0);
  expect_error([&] { more(start); }, "ScanLayers: Wrong returns another structure than that of its carry");
  ScanLayers<Wrong> narrow(kLayerCount, 1);
  expect_error([&] { narrow(start); }, "ScanLayers: Wrong returns f32[3] for tensor 0 of its carry, which is f64[3]");
}

}  // namespace
}  // namespace tessera::nn
