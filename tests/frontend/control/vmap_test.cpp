// SPDX-License-Identifier: Apache-2.0
// vmap(f) gives the values and gradients of a C++ loop that calls f for each example.
#include "tessera/frontend/control/vmap.h"

#include <gtest/gtest.h>

#include <functional>

#include "frontend/control/finite_gradients.h"
#include "frontend/on_ranks.h"
#include "support/error_of.h"
#include "tessera/frontend/control/checkpoint.h"
#include "tessera/frontend/control/control_flow.h"
#include "tessera/frontend/tensor/attention.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera {
namespace {

using testing::error_of;
using testing::expect_equal_functions;
using testing::seeded_values;
using Function = testing::TensorFunction;

constexpr std::int64_t kExamples = 5;

// Calls f for all examples. `has_own[i]`: each example has its own argument i, along dim 0.
Tensor by_vmap(const Function& f, const std::vector<Tensor>& arguments, const std::vector<bool>& has_own) {
  std::vector<Tensor> own;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (has_own[i]) own.push_back(arguments[i]);
  return vmap([&](const std::vector<Tensor>& examples) {
    std::vector<Tensor> all;
    auto next = examples.begin();
    for (std::size_t i = 0; i < arguments.size(); ++i) all.push_back(has_own[i] ? *next++ : arguments[i]);
    return f(all);
  })(own);
}
Tensor by_loop(const Function& f, const std::vector<Tensor>& arguments, const std::vector<bool>& has_own) {
  std::vector<Tensor> results;
  for (std::int64_t e = 0; e < kExamples; ++e) {
    std::vector<Tensor> one;
    for (std::size_t i = 0; i < arguments.size(); ++i)
      one.push_back(has_own[i] ? arguments[i].select(0, e) : arguments[i]);
    results.push_back(f(one));
  }
  return stack(results, 0);
}

// A sum with another weight for each element.
Tensor weighted_sum(const Tensor& x) {
  const Tensor flat = x.reshape({x.element_count()});
  return sum(flat * sin(Tensor::iota(flat.type(), 0) + 0.5));
}

// `dims` are those of one example.
void expect_like_loop(const Function& f, const std::vector<Dims>& dims) {
  for (std::size_t set = 1; set < std::size_t{1} << dims.size(); ++set) {
    std::vector<Literal> arguments;
    std::vector<bool> has_own;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      has_own.push_back((set >> i & 1U) != 0);
      Dims all = dims[i];
      if (has_own.back()) all.insert(all.begin(), kExamples);
      arguments.push_back(seeded_values(all, static_cast<unsigned>(i + 1)));
    }
    SCOPED_TRACE("own arguments " + std::to_string(set));
    expect_equal_functions([&](const auto& a) { return weighted_sum(by_vmap(f, a, has_own)); },
                           [&](const auto& a) { return weighted_sum(by_loop(f, a, has_own)); }, arguments);
  }
}

struct VmapCase {
  std::string name;
  Function f;
  std::vector<Dims> dims;
};

std::vector<VmapCase> product_cases() {
  return {{"matmul", [](const auto& a) { return matmul(a[0], a[1]); }, {{3, 4}, {4, 2}}},
          {"batched_products",
           [](const auto& a) {
             return einsum("bij,bjk->bki", {a[0], a[1]});
           },
           {{2, 3, 4}, {2, 4, 3}}},
          {"outer",
           [](const auto& a) {
             return einsum("i,j->ij", {a[0], a[1]});
           },
           {{3}, {2}}},
          {"convolution",
           [](const auto& a) {
             return conv2d(a[0], a[1], {.stride = {2, 1}, .padding = 1});
           },
           {{2, 3, 5, 4}, {4, 3, 3, 2}}},
          {"grouped_convolution",
           [](const auto& a) { return conv2d(a[0], a[1], {.groups = 2}); },
           {{1, 4, 3, 5}, {6, 2, 2, 3}}},
          {"attention",
           [](const auto& a) { return scaled_dot_product_attention(a[0], a[1], a[1], {.causal = true}); },
           {{2, 4, 3, 2}, {2, 2, 5, 2}}},
          {"attention_with_mask",
           [](const auto& a) { return scaled_dot_product_attention(a[0], a[0], a[0], {.mask = a[1]}); },
           {{2, 2, 3, 4}, {2, 1, 3}}}};
}

std::vector<VmapCase> reduction_cases() {
  return {{"softmax", [](const auto& a) { return softmax(a[0], -1) * a[1]; }, {{3, 4}, {4}}},
          {"layer_norm", [](const auto& a) { return layer_norm(a[0], a[1], a[1], 1e-3); }, {{3, 5}, {5}}},
          {"reductions",
           [](const auto& a) { return logsumexp(a[0], 0) + max(a[0], 0) * prod(a[0], 0) + cumsum(a[1], 0); },
           {{3, 4}, {4}}},
          {"pools",
           [](const auto& a) {
             return max_pool2d(a[0], {.kernel_size = {3, 2}, .stride = {2, 1}, .padding = 1}) +
                    avg_pool2d(a[0], {.kernel_size = {3, 2}, .stride = {2, 1}, .padding = 1});
           },
           {{1, 2, 5, 4}}},
          {"normalized_channels",
           [](const auto& a) {
             const ChannelStatistics s = channel_statistics(a[0]);
             return normalize_channels(a[0], s.mean, s.variance, 0.1);
           },
           {{3, 2, 4}}}};
}

std::vector<VmapCase> movement_cases() {
  return {{"shapes",
           [](const auto& a) {
             const Tensor x = concat({a[0], flip(a[0], 1)}, 0).permute({1, 0}).pad(0, 2, 1, 0.5);
             return x.slice(1, 1, 4).reshape({3, 6}) * a[1].unsqueeze(1);
           },
           {{2, 3}, {3}}},
          {"where",
           [](const auto& a) { return where(a[0] > a[1], a[0] * 2.0, clamp(a[1], {.min = -0.3, .max = 0.4})); },
           {{3, 2}, {3, 2}}},
          {"scalars", [](const auto& a) { return where(sum(a[0]) > 0.0, a[0] * a[1], a[0] - a[1]); }, {{3}, {}}},
          {"sorted",
           [](const auto& a) { return sort(a[0]).values + topk(a[0], 3).values.pad(0, 0, 2, 0.0) * a[1]; },
           {{5}, {5}}},
          {"looked_up",
           [](const auto& a) { return index_select(a[0], 0, argmax(a[1], 1)) + gather(a[0], 0, argsort(a[0])); },
           {{2, 2}, {2, 2}}},
          {"dynamic_slice", [](const auto& a) { return narrow(a[0], 0, argmax(a[1], 0), 2); }, {{4, 3}, {5}}}};
}

std::vector<VmapCase> control_cases() {
  const auto cell = [](const Tensor& h, const Tensor& x) {
    const Tensor next = tanh(h * x + x);
    return std::pair(next, next * h);
  };
  return {{"cond",
           [](const auto& a) {
             return cond(
                 sum(a[0]) > 0.0, [&] { return a[0] * a[1]; }, [&] { return sin(a[1]) - a[0]; });
           },
           {{3}, {3}}},
          {"scan",
           [=](const auto& a) {
             const auto [last, ys] = scan(cell, a[0], a[1]);
             return last + sum(ys, 0);
           },
           {{3}, {4, 3}}},
          {"scan_with_captured_weights",
           [](const auto& a) {
             const auto [last, ys] = scan(
                 [&](const Tensor& h, const Tensor& x) { return std::pair(tanh(matmul(h, a[2]) + x), h); }, a[0], a[1]);
             return last + sum(ys, 0);
           },
           {{1, 2}, {3, 1, 2}, {2, 2}}},
          {"fori_loop",
           [](const auto& a) {
             return fori_loop(
                 0, 3, [&](const Tensor& i, const Tensor& v) { return tanh(v * a[1]) + i.to(DType::kF64); }, a[0]);
           },
           {{3}, {3}}},
          {"checkpoint",
           [](const auto& a) {
             auto block = checkpoint([&](const Tensor& x) { return tanh(sin(x) * a[1]) + x; });
             return block(a[0]);
           },
           {{3}, {3}}},
          {"custom_gradient",
           [](const auto& a) {
             const auto doubled = custom_gradient([](const Tensor& x) { return std::pair(x * x, x); },
                                                  [](const Tensor& x, const Tensor& d) { return x * d * 4.0; });
             return doubled(a[0]) * a[1] + stop_gradient(a[0]);
           },
           {{3}, {3}}}};
}

class Vmap : public ::testing::TestWithParam<VmapCase> {};

TEST_P(Vmap, EqualsALoopOverTheExamples) {
  const FreshRank rank;
  expect_like_loop(GetParam().f, GetParam().dims);
}

std::vector<VmapCase> all_cases() {
  std::vector<VmapCase> out;
  for (const auto& cases : {product_cases(), reduction_cases(), movement_cases(), control_cases()})
    out.insert(out.end(), cases.begin(), cases.end());
  return out;
}
INSTANTIATE_TEST_SUITE_P(Functions, Vmap, ::testing::ValuesIn(all_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(VmapLoops, AWhileRunsUntilAllExamplesAreDone) {
  const FreshRank rank;
  const auto doublings = vmap([](const Tensor& x) {
    const auto state = while_loop([](const auto& s) { return s.first < 50.0; },
                                  [](const auto& s) { return std::pair(s.first * 2.0, s.second + 1.0); },
                                  std::pair(x, Tensor::full(Type::scalar(DType::kS32), 0)));
    return state;
  });
  const auto [values, counts] = doublings(Tensor::from<double>({4}, {1, 60, 7, 25}));
  mark_step();
  EXPECT_EQ(values.to_vector<double>(), (std::vector<double>{64, 60, 56, 50}));
  EXPECT_EQ(counts.to_vector<std::int32_t>(), (std::vector<std::int32_t>{6, 0, 3, 1}));
}

// ---- options --------------------------------------------------------------------------------------------------------

TEST(VmapOptions, DimsMayDifferForEachArgumentAndResult) {
  const FreshRank rank;
  const Literal x = seeded_values({3, 5}, 1);
  const Literal y = seeded_values({5, 2, 4}, 2);
  const Literal w = seeded_values({3}, 3);
  const auto f = [](const Tensor& a, const std::vector<Tensor>& b, const Tensor& c) {
    return std::tuple(a * c, sum(b[0], 0), c * 2.0);
  };
  const std::vector<Tensor> given{Tensor::from_host(y)};
  const auto [products, sums, shared] = vmap(f, {.in_dims = {-1, 0, std::nullopt}, .out_dims = {1, -1, std::nullopt}})(
      Tensor::from_host(x), given, Tensor::from_host(w));
  const Tensor expected = Tensor::from_host(x) * Tensor::from_host(w).unsqueeze(1);
  const Tensor expected_sums = sum(Tensor::from_host(y), 1).permute({1, 0});
  mark_step();
  EXPECT_EQ(products.to_vector<double>(), expected.to_vector<double>());
  EXPECT_EQ(sums.dims(), (Dims{4, 5}));
  EXPECT_EQ(sums.to_vector<double>(), expected_sums.to_vector<double>());
  EXPECT_EQ(shared.dims(), Dims{3});
}

TEST(VmapOptions, SharedResultsAreRepeated) {
  const FreshRank rank;
  const auto f = [](const Tensor& x) { return std::pair(x, Tensor::full(Type::array(DType::kF64, {2}), 3)); };
  const auto [same, threes] = vmap(f, {.in_dims = std::nullopt, .size = 4})(Tensor::from<double>({1}, {7}));
  mark_step();
  EXPECT_EQ(same.to_vector<double>(), std::vector<double>(4, 7));
  EXPECT_EQ(threes.dims(), (Dims{4, 2}));
}

TEST(VmapOptions, MistakesAreNamed) {
  const FreshRank rank;
  const Tensor x = Tensor::from_host(seeded_values({4, 3}, 1));
  const Tensor y = Tensor::from_host(seeded_values({5, 3}, 2));
  const auto add = [](const Tensor& a, const Tensor& b) { return a + b; };
  const auto first_line = [](const std::string& error) { return error.substr(0, error.find('\n')); };
  EXPECT_EQ(first_line(error_of([&] { (void)vmap(add)(x, y); })),
            "vmap: all arguments need as many examples: dim 0 of tensor 1, f64[5,3], is not 4");
  EXPECT_EQ(first_line(error_of([&] {
              (void)vmap(add, {.in_dims = {0, 0, 0}})(x, x);
            })),
            "vmap: in_dims has 3 entries, but 2 are needed");
  EXPECT_EQ(first_line(error_of([&] { (void)vmap(add, {.in_dims = std::nullopt})(x, x); })),
            "vmap: in_dims maps no tensor, so the number of examples must be given as .size");
  EXPECT_EQ(first_line(error_of([&] { (void)vmap(add, {.out_dims = std::nullopt})(x, x); })),
            "vmap: out_dims is nullopt for tensor 0 of the result, but it differs between examples");
  EXPECT_NE(error_of([&] { (void)vmap(add)(x, y); }).find("vmap_test.cpp:"), std::string::npos);
  EXPECT_NE(error_of([&] {
              (void)vmap([](const Tensor& a) { return a * a.to_vector<double>().front(); })(x);
            }).find("a tensor is read inside of a function"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera
