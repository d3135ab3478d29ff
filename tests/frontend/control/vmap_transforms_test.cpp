// SPDX-License-Identifier: Apache-2.0
// vmap with grad, jvp, vjp, itself, compile, random numbers, and shardings of the examples.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "frontend/control/finite_gradients.h"
#include "frontend/on_ranks.h"
#include "support/error_of.h"
#include "tessera/frontend/compile/typed_function.h"
#include "tessera/frontend/control/control_flow.h"
#include "tessera/frontend/control/vmap.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/attention.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tensor/random.h"

namespace tessera {
namespace {

using testing::error_of;
using testing::seeded_values;

Tensor of_values(const Dims& dims, unsigned seed) { return Tensor::from_host(seeded_values(dims, seed)); }

void expect_close(const Tensor& got, const Tensor& expected, double bound = 1e-11) {
  ASSERT_EQ(got.dims(), expected.dims());
  const auto a = got.to_vector<double>();
  const auto b = expected.to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], bound * (1 + std::abs(b[i]))) << i;
}

struct Parameters {
  Tensor w, b;
  static void fields(auto& self, auto&& visit) {
    visit("w", self.w);
    visit("b", self.b);
  }
};

Tensor loss_of(const Parameters& p, const Tensor& x, const Tensor& y) {
  return sum(square(tanh(matmul(x.unsqueeze(0), p.w).squeeze(0) + p.b) - y));
}

TEST(VmapTransforms, PerExampleGradients) {
  const FreshRank rank;
  const Parameters p{of_values({3, 2}, 1), of_values({2}, 2)};
  const Tensor x = of_values({5, 3}, 3);
  const Tensor y = of_values({5, 2}, 4);
  const Parameters each = vmap(grad(loss_of), {.in_dims = {std::nullopt, 0, 0}})(p, x, y);
  std::vector<Tensor> w;
  std::vector<Tensor> b;
  for (std::int64_t e = 0; e < 5; ++e) {
    const Parameters d = grad(loss_of)(p, x.select(0, e), y.select(0, e));
    w.push_back(d.w);
    b.push_back(d.b);
  }
  expect_close(each.w, stack(w, 0));
  expect_close(each.b, stack(b, 0));
}

// Gradients with respect to captured variables, and of a function of the gradients.
TEST(VmapTransforms, GradientsOfCapturedVariablesAndOfPerExampleGradients) {
  const FreshRank rank;
  Tensor w = of_values({3}, 1);
  w.set_requires_grad();
  const Tensor xs = of_values({5, 3}, 2);
  const auto norm_of = [&](const Tensor& x) { return sum(square(gradients(sum(sin(w * x)), {w})[0])); };
  sum(vmap(norm_of)(xs)).backward();
  Tensor v = of_values({3}, 1);
  v.set_requires_grad();
  Tensor total;
  for (std::int64_t e = 0; e < 5; ++e) {
    const Tensor x = xs.select(0, e);
    const Tensor one = sum(square(cos(v * x) * x));
    total = total.is_null() ? one : total + one;
  }
  total.backward();
  expect_close(w.grad(), v.grad());
}

Tensor scalar_function(const Tensor& x) { return sum(x * x * x * sin(flip(x, 0))) + prod(x, 0); }

TEST(VmapTransforms, AHessianIsAVmapOfTangentsOrOfPullbacks) {
  const FreshRank rank;
  const Tensor x = of_values({4}, 1);
  const Tensor basis = eye(4, {}, DType::kF64);
  const Tensor by_tangents =
      vmap([&](const Tensor& v) { return jvp(grad(scalar_function), std::tuple(x), std::tuple(v)).second; })(basis);
  const auto [gradient, pullback] = vjp(grad(scalar_function), x);
  const Tensor by_pullbacks = vmap(pullback)(basis);
  std::vector<Tensor> rows;
  for (std::int64_t i = 0; i < 4; ++i) {
    const auto element = [&](const Tensor& z) { return grad(scalar_function)(z).select(0, i); };
    rows.push_back(grad(element)(x));
  }
  const Tensor expected = stack(rows, 0);
  expect_close(by_tangents, expected);
  expect_close(by_pullbacks, expected);
}

// A pullback of a scan is linear, and a scan may call it as well.
TEST(VmapTransforms, PullbacksOfLoopsMayBeMapped) {
  const FreshRank rank;
  const Tensor xs = of_values({3, 2}, 2);
  const auto f = [&](const Tensor& h) {
    return scan([](const Tensor& c, const Tensor& x) { return std::pair(tanh(c * x) + x, c); }, h, xs).first;
  };
  const auto [value, pullback] = vjp(f, of_values({2}, 1));
  const Tensor basis = eye(2, {}, DType::kF64);
  const Tensor expected = stack({pullback(basis.select(0, 0)), pullback(basis.select(0, 1))}, 0);
  expect_close(vmap(pullback)(basis), expected);
  const Tensor none = Tensor::from<double>({}, {0});
  const auto [end, rows] =
      scan([&](const Tensor& c, const Tensor& d) { return std::pair(c, pullback(d)); }, none, basis);
  expect_close(rows, expected);
}

TEST(VmapTransforms, TangentsAndSecondDerivativesOfAttention) {
  const FreshRank rank;
  const Tensor q = of_values({3, 2, 4, 2}, 1);
  const Tensor k = of_values({2, 5, 2}, 2);
  const auto f = [&](const Tensor& x) {
    const auto loss = [&](const Tensor& z) { return sum(square(scaled_dot_product_attention(z, k, k))); };
    return grad([&](const Tensor& z) { return sum(square(grad(loss)(z))); })(x);
  };
  const Tensor expected = stack({f(q.select(0, 0)), f(q.select(0, 1)), f(q.select(0, 2))}, 0);
  expect_close(vmap(f)(q), expected, 1e-10);
}

TEST(VmapTransforms, Nests) {
  const FreshRank rank;
  const Tensor x = of_values({3, 4}, 1);
  const Tensor y = of_values({5, 4}, 2);
  const auto product = [](const Tensor& a, const Tensor& b) { return sum(sin(a) * b); };
  const Tensor all = vmap([&](const Tensor& a) { return vmap([&](const Tensor& b) { return product(a, b); })(y); })(x);
  const Tensor turned = vmap(vmap(product, {.in_dims = {0, std::nullopt}}), {.in_dims = {std::nullopt, 0}})(x, y);
  const Tensor expected = matmul(sin(x), y.permute({1, 0}));
  expect_close(all, expected);
  expect_close(turned, expected.permute({1, 0}));
}

TEST(VmapTransforms, WorksInScansAndInCompiledFunctions) {
  const FreshRank rank;
  auto step = compile([](const Tensor& x) {
    const auto row = [](const Tensor& r) {
      return cond(
          sum(r) > 0.0, [&] { return r * 2.0; }, [&] { return r - 1.0; });
    };
    return scan([&](const Tensor& c, const Tensor& z) { return std::pair(c + vmap(row)(z), c); }, x.select(0, 0), x)
        .first;
  });
  for (unsigned seed = 1; seed < 4; ++seed) {
    const Literal x = seeded_values({3, 2, 4}, seed);
    const auto got = step(Tensor::from_host(x)).to_vector<double>();
    const auto data = x.data<double>();
    for (std::size_t r = 0; r < 2; ++r) {
      double expected[4];
      for (std::size_t c = 0; c < 4; ++c) expected[c] = data[r * 4 + c];
      for (std::size_t t = 0; t < 3; ++t) {
        double total = 0;
        for (std::size_t c = 0; c < 4; ++c) total += data[t * 8 + r * 4 + c];
        for (std::size_t c = 0; c < 4; ++c) {
          const double z = data[t * 8 + r * 4 + c];
          expected[c] += total > 0 ? z * 2 : z - 1;
        }
      }
      for (std::size_t c = 0; c < 4; ++c) EXPECT_NEAR(got[r * 4 + c], expected[c], 1e-12);
    }
  }
}

// ---- random numbers -------------------------------------------------------------------------------------------------

TEST(VmapRandom, EachExampleDrawsTheNumbersOfAnIterationOfAScan) {
  const FreshRank rank;
  const Tensor xs = of_values({6, 4}, 1);
  const auto noisy = [](const Tensor& x) { return dropout(x, 0.5) + random_uniform(x.type()); };
  manual_seed(3);
  const Tensor mapped = vmap(noisy)(xs);
  const auto values = mapped.to_vector<double>();
  mark_step();
  manual_seed(3);
  const Tensor none = Tensor::from<double>({}, {0});
  const auto scanned = scan([&](const Tensor& c, const Tensor& x) { return std::pair(c, noisy(x)); }, none, xs).second;
  EXPECT_EQ(scanned.to_vector<double>(), values);
  for (std::size_t e = 1; e < 6; ++e) EXPECT_NE(values[e * 4], values[0]) << e;
}

TEST(VmapRandom, KeysMayBeMapped) {
  const FreshRank rank;
  const std::vector<Key> keys = Key(7).split(3);
  std::vector<Tensor> words;
  std::vector<Tensor> expected;
  for (const Key& key : keys) {
    words.push_back(key.words());
    expected.push_back(rand(key, {5}));
  }
  const Tensor all = vmap([](const Tensor& w) { return rand(Key(w), {5}); })(stack(words, 0));
  EXPECT_EQ(all.to_vector<float>(), stack(expected, 0).to_vector<float>());
}

// ---- layouts --------------------------------------------------------------------------------------------------------

struct VmapLayout {
  std::string mesh;
  std::string x;  // [examples, rows, columns]
  std::string w;  // [columns, columns]
  std::string inner;
};

std::vector<double> mapped_on(const VmapLayout& layout) {
  std::vector<double> out;
  std::mutex guard;
  on_ranks(static_cast<int>(Mesh::parse(layout.mesh).device_count()), [&](int rank) {
    const Mesh mesh = Mesh::parse(layout.mesh);
    set_default_mesh(mesh);
    const Tensor x = of_values({5, 3, 4}, 1);
    Tensor w = of_values({4, 4}, 2);
    mark_sharding(x, mesh, PartitionSpec::parse(layout.x));
    mark_sharding(w, mesh, PartitionSpec::parse(layout.w));
    w.set_requires_grad();
    const auto f = [&](const Tensor& one) {
      const Tensor h = with_sharding_constraint(tanh(matmul(one, w)), mesh, PartitionSpec::parse(layout.inner));
      return sum(softmax(matmul(h, w), -1) * one);
    };
    const Tensor each = vmap(f)(x);
    sum(each * each).backward();
    mark_step();
    std::vector<double> mine;
    for (const Literal& value : read_all({each, w.grad()}))
      mine.insert(mine.end(), value.data<double>().begin(), value.data<double>().end());
    const std::lock_guard lock(guard);
    if (rank == 0) out = std::move(mine);
  });
  return out;
}

TEST(VmapLayouts, EveryShardingOfTheExamplesGivesTheSameValuesAndGradients) {
  const std::vector<double> expected = mapped_on({"a=1", "-,-,-", "-,-", "-,-"});
  const std::vector<VmapLayout> layouts{{"a=2", "a,-,-", "-,-", "-,-"},
                                        {"a=2", "-,a,-", "-,a", "a,-"},
                                        {"a=3,b=2", "a,-,-", "-,b", "-,b"},
                                        {"a=2,b=2", "a,b,-", "b,-", "b,-"}};
  for (const VmapLayout& layout : layouts) {
    SCOPED_TRACE(layout.mesh + " x " + layout.x + " w " + layout.w);
    const std::vector<double> got = mapped_on(layout);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], expected[i], 1e-9 * (1 + std::abs(expected[i]))) << i;
  }
}

TEST(VmapLayouts, ShardedExamplesNeedNoCommunication) {
  const FreshRank rank;
  const Mesh mesh = Mesh::parse("a=4");
  plan_for_devices(4);
  const Tensor x = Tensor::abstract(Type::array(DType::kF32, {8, 3, 6}), "x");
  const Tensor w = Tensor::abstract(Type::array(DType::kF32, {6, 6}), "w");
  mark_sharding(x, mesh, {"a", {}, {}});
  const Tensor each = vmap([&](const Tensor& one) { return softmax(matmul(one, w), -1); })(x);
  mark_sharding(each, mesh, {"a", {}, {}});
  EXPECT_TRUE(plan_step().partitioned.notes.empty());
}

TEST(VmapRandom, AKeyGivesTheSameNumbersUnlessItDependsOnTheExampleOrTheRound) {
  const FreshRank rank;
  const Key key(3);
  const Tensor each = rand(key, {2});
  const auto same = vmap([&](const Tensor&) { return rand(key, {2}); })(arange(2));
  EXPECT_EQ(same.to_vector<float>(), stack({each, each}).to_vector<float>());
  const Tensor folded = stack({rand(key.fold_in(0), {2}), rand(key.fold_in(1), {2})});
  const auto own = [&](const Tensor& i) { return rand(key.fold_in(i), {2}); };
  EXPECT_EQ(vmap(own)(arange(2, kS32)).to_vector<float>(), folded.to_vector<float>());
  const Tensor rounds =
      scan([&](const Tensor& c, const Tensor& i) { return std::pair(c, own(i)); }, zeros({}), arange(2, kS32)).second;
  EXPECT_EQ(rounds.to_vector<float>(), folded.to_vector<float>());
}

}  // namespace
}  // namespace tessera
