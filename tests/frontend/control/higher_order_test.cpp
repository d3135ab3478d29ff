// SPDX-License-Identifier: Apache-2.0
// Second and third derivatives agree with differences of the derivatives before them, and are equal on every mesh.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "frontend/control/finite_gradients.h"
#include "frontend/on_ranks.h"
#include "tessera/frontend/control/checkpoint.h"
#include "tessera/frontend/control/control_flow.h"
#include "tessera/frontend/control/transforms.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/attention.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera {
namespace {

using testing::expect_finite_differences;
using testing::seeded_values;
using testing::TensorFunction;

// Another number for each element.
Tensor weights_like(const Tensor& x, double shift) {
  return sin(Tensor::iota(Type::array(DType::kF64, {x.element_count()}), 0) + shift).reshape(x.dims());
}

Tensor weighted(const Tensor& x, double shift) { return sum(x * weights_like(x, shift)); }

// A weighted sum of the gradients of `function`, whose gradients are second derivatives.
TensorFunction derivative_of(const TensorFunction& function) {
  return [=](const std::vector<Tensor>& a) {
    Tensor out;
    for (const Tensor& gradient : gradients(function(a), a)) {
      const Tensor part = weighted(gradient, 0.5);
      out = out.is_null() ? part : out + part;
    }
    return out;
  };
}

// ---- loops ----------------------------------------------------------------------------------------------------------

TEST(HigherOrder, AScanHasAThirdDerivative) {
  const FreshRank rank;
  for (const bool reverse : {false, true}) {
    const auto recurrent = [=](const std::vector<Tensor>& a) {
      const auto cell = [&](const Tensor& h, const Tensor& x) {
        const Tensor next = tanh(matmul(h.unsqueeze(0), a[2]).squeeze(0) + x);
        return std::pair(next, next * h);
      };
      const auto [last, outputs] = scan(cell, a[0], a[1], {.reverse = reverse});
      return weighted(last, 1) + weighted(outputs, 2);
    };
    expect_finite_differences(derivative_of(derivative_of(recurrent)),
                              {seeded_values({2}, 5), seeded_values({3, 2}, 6), seeded_values({2, 2}, 7)});
  }
}

TEST(HigherOrder, AForiLoopHasAFourthDerivative) {
  const FreshRank rank;
  const auto power = [](const Tensor& x) {  // x^8
    return fori_loop(
        0, 3, [](const Tensor&, const Tensor& v) { return v * v; }, x);
  };
  const Tensor fourth = grad(grad(grad(grad(power))))(Tensor::from<double>({}, {1.1}));
  mark_step();
  EXPECT_NEAR(fourth.item(), 8 * 7 * 6 * 5 * std::pow(1.1, 4), 1e-8);
}

TEST(HigherOrder, AScanWithACheckpointAndAConditionalHasAThirdDerivative) {
  const FreshRank rank;
  const auto mixed = [](const std::vector<Tensor>& a) {
    auto step = checkpoint([&](const Tensor& c, const Tensor& x) {
      const Tensor y = cond(
          x > 0.0, [&] { return sin(c * x); }, [&] { return c * c + a[2]; });
      return std::pair(tanh(y * a[2]), y);
    });
    const auto [last, ys] = scan(step, a[0], a[1]);
    return last * last + weighted(ys, 1);
  };
  expect_finite_differences(derivative_of(derivative_of(mixed)),
                            {seeded_values({}, 11), seeded_values({5}, 12), seeded_values({}, 13)});
}

// Between the passes, a scan stores values of each round, but no array with the square of the number of rounds.
TEST(HigherOrder, ASecondDerivativeOfAScanNeedsLinearMemory) {
  const FreshRank rank;
  constexpr std::int64_t kRounds = 23;
  Tensor xs = Tensor::from_host(seeded_values({kRounds}, 1));
  xs.set_requires_grad();
  const auto loss = [](const std::vector<Tensor>& a) {
    const auto [last, ys] =
        scan([](const Tensor& c, const Tensor& x) { return std::pair(sin(c * x), c * c); }, sum(a[0]), a[0]);
    return last + weighted(ys, 1);
  };
  derivative_of(loss)({xs}).backward();
  mark_step();
  for (const ComputationRef& computation : compiled_programs().back().global.computations)
    for (const Instruction& instruction : computation->instructions)
      for (const Type& leaf : instruction.type.leaves())
        EXPECT_LT(leaf.element_count(), kRounds * kRounds) << instruction.name;
}

// ---- windows, attention, statistics ---------------------------------------------------------------------------------

TensorFunction pooled(const Pool2dOptions& options) {
  return [=](const std::vector<Tensor>& a) {
    const Tensor y = max_pool2d(a[0] * sin(a[0]) + a[0], options);
    return weighted(y * y * y, 1);
  };
}

TEST(HigherOrder, MaximaOverWindowsHaveASecondAndAThirdDerivative) {
  const FreshRank rank;
  const std::vector<Literal> image{seeded_values({1, 2, 5, 4}, 3)};
  const std::vector<Pool2dOptions> cases{{.kernel_size = {2, 2}},
                                         {.kernel_size = {3, 2}, .stride = {2, 1}, .padding = {1, 1}},
                                         {.kernel_size = {2, 2}, .stride = {1, 1}, .dilation = {2, 3}}};
  for (const Pool2dOptions& options : cases) {
    expect_finite_differences(pooled(options), image);
    expect_finite_differences(derivative_of(pooled(options)), image);
    expect_finite_differences(derivative_of(derivative_of(pooled(options))), image);
  }
}

Tensor attended(const std::vector<Tensor>& a) {
  return weighted(scaled_dot_product_attention(a[0], a[1], a[2], {.causal = true, .dropout = 0.3}), 1);
}

TEST(HigherOrder, AttentionHasASecondDerivative) {
  const FreshRank rank;
  const auto with_mask = [](const std::vector<Tensor>& a) {
    return weighted(scaled_dot_product_attention(a[0], a[1], a[2], {.mask = a[3]}), 1);
  };
  expect_finite_differences(derivative_of(with_mask), {seeded_values({1, 2, 3, 2}, 1), seeded_values({1, 1, 5, 2}, 2),
                                                       seeded_values({1, 1, 5, 3}, 3), seeded_values({2, 1, 5}, 4)});
}

TEST(HigherOrder, AttentionHasATangent) {
  const FreshRank rank;
  const auto f = [](const Tensor& q, const Tensor& k) {
    const Tensor offset = Tensor::from<std::int32_t>({}, {2});
    return scaled_dot_product_attention(q, k, k * 2.0, {.causal = true, .query_offset = offset});
  };
  const auto host = [](const Literal& l) { return Tensor::from_host(l); };
  const Literal q = seeded_values({1, 2, 3, 4}, 1);
  const Literal k = seeded_values({1, 2, 5, 4}, 2);
  const Literal dq = seeded_values({1, 2, 3, 4}, 3);
  const Literal dk = seeded_values({1, 2, 5, 4}, 4);
  const auto at_step = [&](double h) { return f(host(q) + host(dq) * h, host(k) + host(dk) * h); };
  const auto [result, tangent] = jvp(f, std::tuple(host(q), host(k)), std::tuple(host(dq), host(dk)));
  const Tensor slope = (at_step(1e-5) - at_step(-1e-5)) / 2e-5;
  mark_step();
  const auto exact = tangent.to_vector<double>();
  const auto expected = slope.to_vector<double>();
  for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(exact[i], expected[i], 1e-8) << i;
}

TEST(HigherOrder, StatisticsOfChannelsHaveASecondDerivative) {
  const FreshRank rank;
  const auto normalized = [](const std::vector<Tensor>& a) {
    const ChannelStatistics batch = channel_statistics(a[0]);
    const Tensor y = normalize_channels(a[0], batch.mean, batch.variance, 0.1);
    return weighted(y * y, 1) + weighted(batch.variance, 2);
  };
  expect_finite_differences(derivative_of(normalized), {seeded_values({3, 2, 5}, 1)});
}

// ---- layouts --------------------------------------------------------------------------------------------------------

struct ImageLayout {
  std::string mesh;
  std::string image;  // [batch, channels, height, width]
  std::string q;      // [batch, heads, rows, depth]
  std::string k;      // also of v
};

// The gradients of the derivative of attention with dropout and of a pool.
std::vector<double> second_derivatives(const ImageLayout& layout) {
  std::vector<double> out;
  std::mutex guard;
  on_ranks(static_cast<int>(Mesh::parse(layout.mesh).device_count()), [&](int rank) {
    const Mesh mesh = Mesh::parse(layout.mesh);
    set_default_mesh(mesh);
    manual_seed(3);
    std::vector<Tensor> inputs;
    const auto add = [&](const Dims& dims, const std::string& spec) {
      inputs.push_back(Tensor::from_host(seeded_values(dims, static_cast<unsigned>(inputs.size()) + 1)));
      mark_sharding(inputs.back(), mesh, PartitionSpec::parse(spec));
      inputs.back().set_requires_grad();
    };
    add({3, 4, 7, 2}, layout.q);
    add({3, 2, 7, 2}, layout.k);
    add({3, 2, 7, 2}, layout.k);
    add({3, 2, 7, 5}, layout.image);
    const TensorFunction loss = [](const std::vector<Tensor>& a) {
      const Pool2dOptions window{.kernel_size = {3, 2}, .stride = {2, 1}, .padding = {1, 1}};
      return attended(a) + pooled(window)({a[3]});
    };
    derivative_of(loss)(inputs).backward();
    std::vector<Tensor> gradients;
    for (const Tensor& input : inputs) gradients.push_back(input.grad());
    mark_step();
    const std::vector<Literal> values = read_all(gradients);
    const std::lock_guard lock(guard);
    if (rank != 0) return;
    for (const Literal& value : values) out.insert(out.end(), value.data<double>().begin(), value.data<double>().end());
  });
  return out;
}

TEST(HigherOrder, EveryLayoutGivesTheSameSecondDerivatives) {
  const std::string none = "-,-,-,-";
  const std::vector<double> expected = second_derivatives({"x=1", none, none, none});
  const std::vector<ImageLayout> layouts{{"x=2", "x,-,-,-", "x,-,-,-", "x,-,-,-"},      // batch, unevenly
                                         {"x=2", "-,x,-,-", "-,x,-,-", "-,x,-,-"},      // channels and heads
                                         {"x=3", "-,-,x,-", "-,-,x,-", "-,-,x,-"},      // height, rows and keys
                                         {"x=2,y=2", "x,-,-,y", "x,y,-,-", "x,-,-,-"},  // batch and width, heads
                                         {"x=2,y=3", "-,-,y,x", "-,x,y,-", "-,x,-,-"}};
  for (const ImageLayout& layout : layouts) {
    SCOPED_TRACE(layout.mesh + " image " + layout.image + " q " + layout.q);
    const std::vector<double> got = second_derivatives(layout);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], expected[i], 1e-9 * (1 + std::abs(expected[i]))) << i;
  }
}

}  // namespace
}  // namespace tessera
