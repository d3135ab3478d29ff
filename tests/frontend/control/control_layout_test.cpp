// SPDX-License-Identifier: Apache-2.0
// Conditionals, loops, checkpoints and custom gradients give the same values and gradients on every mesh.
#include <gtest/gtest.h>

#include <mutex>

#include "frontend/control/finite_gradients.h"
#include "frontend/on_ranks.h"
#include "tessera/frontend/control/checkpoint.h"
#include "tessera/frontend/control/control_flow.h"
#include "tessera/frontend/control/transforms.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera {
namespace {

using testing::seeded_values;

constexpr std::int64_t kRows = 5;
constexpr std::int64_t kWidth = 6;
constexpr std::int64_t kLayers = 4;

struct Inputs {
  Tensor x;        // [rows, width]
  Tensor weights;  // [layers, width, width]
  Tensor shared;   // [width]
  Inputs() {
    x = Tensor::from_host(seeded_values({kRows, kWidth}, 1));
    weights = Tensor::from_host(seeded_values({kLayers, kWidth, kWidth}, 2));
    shared = Tensor::from_host(seeded_values({kWidth}, 3));
    weights.set_requires_grad();
    shared.set_requires_grad();
  }
};
using Program = std::function<Tensor(const Inputs&)>;

Tensor layer(const Tensor& h, const Tensor& w, const Tensor& shared) { return tanh(matmul(h, w)) * shared + h; }

Tensor scanned(const Inputs& in) {
  const auto [last, norms] = scan(
      [&](const Tensor& h, const Tensor& w) {
        const Tensor next = layer(h, w, in.shared);
        return std::pair(next, sum(next * next));
      },
      in.x, in.weights);
  return sum(last * last) + sum(norms) * 0.25;
}
Tensor scanned_backwards(const Inputs& in) {
  const auto [last, columns] = scan(
      [&](const Tensor& h, const Tensor& w) {
        const Tensor next = layer(h, w, in.shared);
        return std::pair(next, sum(next, {.dims = {0}}));
      },
      in.x, in.weights, {.reverse = true, .unroll = 3});
  return sum(last * last) + sum(columns * columns);
}
Tensor scanned_with_checkpoint(const Inputs& in) {
  const auto [last, none] = scan(checkpoint([&](const Tensor& h, const Tensor& w) {
                                   return std::pair(layer(h, w, in.shared), std::vector<Tensor>{});
                                 }),
                                 in.x, in.weights);
  return sum(last * last);
}
Tensor counted(const Inputs& in) {
  const Tensor w = in.weights.select(0, 1);
  const Tensor last = fori_loop(
      0, 3, [&](const Tensor& i, const Tensor& h) { return layer(h, w, in.shared) * (i.to(DType::kF64) + 1.0); }, in.x);
  return sum(last * last);
}
Tensor chosen(const Inputs& in) {
  const Tensor h = layer(in.x, in.weights.select(0, 0), in.shared);
  const Tensor y = cond(
      sum(h) > 0.0, [&] { return matmul(h, in.weights.select(0, 1)); },
      [&] { return h * in.shared - matmul(h, in.weights.select(0, 2)); });
  return sum(y * y);
}
Tensor custom(const Inputs& in) {
  const auto doubled = custom_gradient([](const Tensor& h) { return std::pair(tanh(h), tanh(h)); },
                                       [](const Tensor& y, const Tensor& d) { return d * (1.0 - y * y) * 2.0; });
  const Tensor h = doubled(matmul(in.x, in.weights.select(0, 3)) * in.shared);
  return sum(h * h);
}
Tensor iterated(const Inputs& in) {
  const Tensor stepped = while_loop([](const Tensor& h) { return sum(h * h) > 0.5; },
                                    [&](const Tensor& h) { return h * 0.5 + in.x * 0.01; }, in.x);
  return sum(stop_gradient(stepped) * in.shared) + sum(in.weights * in.weights);
}

struct Outcome {
  double loss = 0;
  std::vector<std::vector<double>> gradients;
};
struct Layout {
  std::string mesh;
  std::string x;
  std::string weights;
};

Outcome outcome_on_this_rank(const Program& program, const Layout& layout) {
  const Mesh mesh = Mesh::parse(layout.mesh);
  set_default_mesh(mesh);
  manual_seed(3);
  const Inputs in;
  mark_sharding(in.x, mesh, PartitionSpec::parse(layout.x));
  mark_sharding(in.weights, mesh, PartitionSpec::parse(layout.weights));
  const Tensor loss = program(in);
  loss.backward();
  mark_step();
  Outcome out{loss.item(), {}};
  for (const Literal& gradient : read_all({in.weights.grad(), in.shared.grad()})) {
    const auto values = gradient.data<double>();
    out.gradients.emplace_back(values.begin(), values.end());
  }
  return out;
}

Outcome outcome(const Program& program, const Layout& layout, int ranks) {
  Outcome out;
  std::mutex mutex;
  on_ranks(ranks, [&](int rank) {
    const Outcome mine = outcome_on_this_rank(program, layout);
    const std::scoped_lock lock(mutex);
    if (rank == 0) out = mine;
  });
  return out;
}

class ControlLayouts : public ::testing::TestWithParam<std::pair<const char*, Program>> {};

TEST_P(ControlLayouts, EqualOneRank) {
  const Program& program = GetParam().second;
  const Outcome expected = outcome(program, {"data=1", "data,-", "-,-,-"}, 1);
  const std::vector<std::pair<int, Layout>> layouts{{2, {"data=2", "data,-", "-,-,-"}},
                                                    {3, {"data=3", "data,-", "-,data,-"}},
                                                    {4, {"model=4", "-,-", "-,-,model"}},
                                                    {6, {"data=2,model=3", "data,-", "-,model,data"}},
                                                    {6, {"data=3,model=2", "data,model", "-,data,model"}},
                                                    {4, {"layers=4", "-,-", "layers,-,-"}}};
  for (const auto& [ranks, layout] : layouts) {
    SCOPED_TRACE(layout.mesh + " x " + layout.x + " weights " + layout.weights);
    const Outcome got = outcome(program, layout, ranks);
    EXPECT_NEAR(got.loss, expected.loss, 1e-9 * std::abs(expected.loss));
    ASSERT_EQ(got.gradients.size(), expected.gradients.size());
    for (std::size_t g = 0; g < got.gradients.size(); ++g)
      for (std::size_t i = 0; i < got.gradients[g].size(); ++i)
        ASSERT_NEAR(got.gradients[g][i], expected.gradients[g][i], 1e-9 * (1 + std::abs(expected.gradients[g][i])))
            << "gradient " << g << ", element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, ControlLayouts,
                         ::testing::Values(std::pair{"scan", Program(scanned)},
                                           std::pair{"reverse_scan", Program(scanned_backwards)},
                                           std::pair{"checkpoint", Program(scanned_with_checkpoint)},
                                           std::pair{"fori_loop", Program(counted)}, std::pair{"cond", Program(chosen)},
                                           std::pair{"custom_gradient", Program(custom)},
                                           std::pair{"while_loop", Program(iterated)}),
                         [](const auto& info) { return std::string(info.param.first); });

}  // namespace
}  // namespace tessera
