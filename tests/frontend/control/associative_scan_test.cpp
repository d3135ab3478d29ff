// SPDX-License-Identifier: Apache-2.0
// associative_scan equals scan, for every length, in a logarithmic number of calls, and without communication along
// other dims.
#include "tessera/frontend/control/associative_scan.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <mutex>

#include "frontend/control/finite_gradients.h"
#include "frontend/on_ranks.h"
#include "support/error_of.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera {
namespace {

using testing::error_of;
using testing::expect_equal_functions;
using testing::expect_finite_differences;
using testing::seeded_values;

Tensor add(const Tensor& a, const Tensor& b) { return a + b; }

// h[t] = decay[t] h[t-1] + x[t], as pairs (product of the decays, h).
using Recurrence = std::pair<Tensor, Tensor>;
Recurrence step_recurrence(const Recurrence& l, const Recurrence& r) {
  return {l.first * r.first, l.second * r.first + r.second};
}

TEST(AssociativeScan, SumsEveryNumberOfElements) {
  const FreshRank rank;
  for (std::int64_t count = 0; count < 20; ++count) {
    std::vector<double> numbers;
    std::vector<double> sums;
    for (std::int64_t i = 0; i < count; ++i) {
      numbers.push_back(static_cast<double>(i * i % 7) - 2);
      sums.push_back(numbers.back() + (i == 0 ? 0 : sums.back()));
    }
    int calls = 0;
    const auto counted = [&](const Tensor& a, const Tensor& b) { return ++calls, a + b; };
    const Tensor out = associative_scan(counted, Tensor::from<double>({count}, numbers));
    mark_step();
    EXPECT_EQ(out.to_vector<double>(), sums) << count;
    EXPECT_LE(calls, 2 * (std::bit_width(static_cast<std::uint64_t>(count)) - 1) + 2 * (count == 0)) << count;
  }
}

// Products of matrices do not commute.
TEST(AssociativeScan, EqualsScanForProductsOfMatricesForwardAndInReverse) {
  const FreshRank rank;
  for (const bool reverse : {false, true})
    for (const std::int64_t count : {1, 2, 5, 8, 13}) {
      const auto tree = [=](const std::vector<Tensor>& a) {
        const Tensor out = associative_scan([](const Tensor& l, const Tensor& r) { return matmul(l, r); }, a[0],
                                            {.dim = 0, .reverse = reverse});
        return sum(out * out * a[0]);
      };
      const auto loop = [=](const std::vector<Tensor>& a) {
        Tensor total;
        Tensor product;
        for (std::int64_t k = 0; k < count; ++k) {
          const Tensor x = a[0].select(0, reverse ? count - 1 - k : k);
          product = product.is_null() ? x : matmul(product, x);
          const Tensor part = sum(product * product * x);
          total = total.is_null() ? part : total + part;
        }
        return total;
      };
      expect_equal_functions(tree, loop, {seeded_values({count, 3, 3}, 1)});
    }
}

TEST(AssociativeScan, CombinesTreesAlongAnyDim) {
  const FreshRank rank;
  const auto recurrence = [](int dim) {
    return [=](const std::vector<Tensor>& a) {
      const auto [decay, h] = associative_scan(step_recurrence, std::pair(a[0], a[1]), {.dim = dim});
      return sum(h * h * a[0]) + sum(decay);
    };
  };
  const std::vector<Literal> arguments{seeded_values({2, 7, 3}, 1), seeded_values({2, 7, 3}, 2)};
  const auto loop = [](const std::vector<Tensor>& a) {
    Tensor total;
    Tensor decay = ones({2, 3}, DType::kF64);
    Tensor h = zeros({2, 3}, DType::kF64);
    for (std::int64_t t = 0; t < 7; ++t) {
      const Tensor now = a[0].select(1, t);
      decay = decay * now;
      h = h * now + a[1].select(1, t);
      const Tensor part = sum(h * h * now) + sum(decay);
      total = total.is_null() ? part : total + part;
    }
    return total;
  };
  expect_equal_functions(recurrence(1), loop, arguments);
  expect_equal_functions(recurrence(-2), loop, arguments);
  expect_finite_differences(recurrence(1), arguments);
}

TEST(AssociativeScan, KeepsIntegersAndNegativeZeros) {
  const FreshRank rank;
  const auto last = [](const Tensor&, const Tensor& b) { return b; };
  const Tensor zeros = associative_scan(last, Tensor::from<double>({3}, {-0.0, -0.0, -0.0}));
  const Tensor counts = associative_scan(add, Tensor::from<std::int32_t>({5}, {1, 2, 3, 4, 5}));
  mark_step();
  for (const double zero : zeros.to_vector<double>()) EXPECT_TRUE(std::signbit(zero));
  EXPECT_EQ(counts.to_vector<std::int32_t>(), (std::vector<std::int32_t>{1, 3, 6, 10, 15}));
}

TEST(AssociativeScan, MistakesAreNamed) {
  const FreshRank rank;
  const Tensor x = Tensor::from_host(seeded_values({4, 3}, 1));
  const Tensor y = Tensor::from_host(seeded_values({5, 3}, 2));
  const auto first_line = [](const std::string& error) { return error.substr(0, error.find('\n')); };
  EXPECT_EQ(first_line(error_of([&] { (void)associative_scan(step_recurrence, std::pair(x, y)); })),
            "associative_scan: dim 0 of every tensor must have 4 elements, got f64[5,3]");
  EXPECT_EQ(first_line(error_of([&] {
              (void)associative_scan([](const Tensor& a, const Tensor&) { return sum(a, {.dims = {1}}); }, x);
            })),
            "associative_scan: the function returns f64[2] for tensor 0 of its arguments, which is f64[2,3]");
  EXPECT_NE(error_of([&] { (void)associative_scan(add, x, {.dim = 2}); }).find("associative_scan_test.cpp:"),
            std::string::npos);
}

// ---- layouts --------------------------------------------------------------------------------------------------------

TEST(AssociativeScan, ShardedOtherDimsNeedNoCommunication) {
  const FreshRank rank;
  const Mesh mesh = Mesh::parse("x=2,y=3");
  plan_for_devices(6);
  std::vector<Tensor> inputs;
  for (int i = 0; i < 2; ++i) {
    inputs.push_back(Tensor::abstract(Type::array(DType::kF32, {4, 11, 6}), "x"));
    mark_sharding(inputs.back(), mesh, {"x", {}, "y"});
  }
  auto [decay, h] = associative_scan(step_recurrence, std::pair(inputs[0], inputs[1]), {.dim = 1, .reverse = true});
  for (const Tensor& out : {decay, h}) mark_sharding(out, mesh, {"x", {}, "y"});
  EXPECT_TRUE(plan_step().partitioned.notes.empty());
}

TEST(AssociativeScan, EveryLayoutGivesTheSameValues) {
  const auto values = [](const std::string& mesh_text, const std::string& spec) {
    std::vector<double> out;
    std::mutex guard;
    on_ranks(static_cast<int>(Mesh::parse(mesh_text).device_count()), [&](int rank) {
      const Mesh mesh = Mesh::parse(mesh_text);
      set_default_mesh(mesh);
      const Tensor a = Tensor::from_host(seeded_values({3, 7}, 1));
      const Tensor b = Tensor::from_host(seeded_values({3, 7}, 2));
      for (const Tensor& x : {a, b}) mark_sharding(x, mesh, PartitionSpec::parse(spec));
      const auto result = associative_scan(step_recurrence, std::pair(a, b), {.dim = 1});
      mark_step();
      const auto mine = result.second.to_vector<double>();
      const std::lock_guard lock(guard);
      if (rank == 0) out = mine;
    });
    return out;
  };
  const std::vector<double> expected = values("x=1", "-,-");
  for (const auto& [mesh, spec] : {std::pair("x=2", "x,-"), std::pair("x=3", "-,x"), std::pair("x=2,y=2", "x,y")}) {
    const std::vector<double> got = values(mesh, spec);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12) << mesh << " " << i;
  }
}

}  // namespace
}  // namespace tessera
