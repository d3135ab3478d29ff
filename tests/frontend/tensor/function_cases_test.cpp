// SPDX-License-Identifier: Apache-2.0
// Gradients of all functions against finite differences, and values and gradients on many meshes against one rank.
#include "frontend/tensor/function_cases.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "frontend/on_ranks.h"
#include "tessera/frontend/sharding/mark_sharding.h"

namespace tessera::testing {
namespace {

using Numbers = std::vector<double>;

// The result, then the gradient of loss_of(result) with respect to each input.
std::vector<Numbers> results_of(const FunctionCase& one, const std::function<void(int, Tensor&)>& shard = {}) {
  std::vector<Tensor> inputs = inputs_of(one, input_values(one));
  for (std::size_t i = 0; shard && i < inputs.size(); ++i) shard(static_cast<int>(i), inputs[i]);
  std::vector<Tensor> wanted{one.function(inputs)};
  loss_of(wanted[0]).backward();
  for (const auto& input : inputs) wanted.push_back(input.grad().is_null() ? zeros(input.shape(), kF64) : input.grad());
  mark_step();
  std::vector<Numbers> out;
  for (const auto& literal : read_all(wanted))
    out.emplace_back(literal.data<double>().begin(), literal.data<double>().end());
  return out;
}

class Functions : public ::testing::TestWithParam<FunctionCase> {};

TEST_P(Functions, GradientsEqualFiniteDifferences) {
  const FreshRank rank;
  const FunctionCase& one = GetParam();
  const auto results = results_of(one);
  const auto loss_at = [&](const std::vector<Numbers>& values) {
    const Tensor loss = loss_of(one.function(inputs_of(one, values)));
    mark_step();
    return loss.item();
  };
  std::vector<Numbers> values = input_values(one);
  constexpr double kStep = 1e-6;
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t e = 0; e < values[i].size(); ++e) {
      const double x = values[i][e];
      values[i][e] = x + kStep;
      const double above = loss_at(values);
      values[i][e] = x - kStep;
      const double below = loss_at(values);
      values[i][e] = x;
      const double expected = (above - below) / (2 * kStep);
      ASSERT_NEAR(results[i + 1][e], expected, 1e-7 * (1 + std::fabs(expected))) << "input " << i << " element " << e;
    }
}

std::string case_name(const ::testing::TestParamInfo<FunctionCase>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Pointwise, Functions, ::testing::ValuesIn(pointwise_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Reductions, Functions, ::testing::ValuesIn(reduction_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Shaping, Functions, ::testing::ValuesIn(shaping_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Products, Functions, ::testing::ValuesIn(product_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Indexing, Functions, ::testing::ValuesIn(indexing_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Writing, Functions, ::testing::ValuesIn(writing_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Mathematics, Functions, ::testing::ValuesIn(mathematics_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Statistics, Functions, ::testing::ValuesIn(statistics_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Rearranging, Functions, ::testing::ValuesIn(rearranging_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Random, Functions, ::testing::ValuesIn(random_cases()), case_name);

// Dim `turn` of every input over the first axis, the next dim over the second.
PartitionSpec spec_of(const Mesh& mesh, int ndim, int turn) {
  std::vector<PartitionSpec::Entry> entries(static_cast<std::size_t>(ndim));
  for (int axis = 0; axis < static_cast<int>(mesh.axes().size()) && axis < ndim; ++axis)
    entries[static_cast<std::size_t>((turn + axis) % ndim)] =
        PartitionSpec::Entry(SpecEntry{mesh.axes()[static_cast<std::size_t>(axis)].name});
  return PartitionSpec(entries);
}

class FunctionLayouts : public ::testing::TestWithParam<std::string> {};

TEST_P(FunctionLayouts, EveryFunctionGivesTheValuesOfOneRank) {
  const auto cases = function_cases();
  std::vector<std::vector<Numbers>> expected;
  {
    const FreshRank rank;
    for (const auto& one : cases) expected.push_back(results_of(one));
  }
  const Mesh mesh = Mesh::parse(GetParam());
  std::mutex guard;
  on_ranks(static_cast<int>(mesh.device_count()), [&](int rank) {
    set_default_mesh(mesh);
    for (std::size_t c = 0; c < cases.size(); ++c) {
      int turns = 1;
      for (const auto& dims : cases[c].inputs) turns = std::max(turns, std::min(2, static_cast<int>(dims.size())));
      for (int turn = 0; turn < turns; ++turn) {
        const auto results = results_of(
            cases[c], [&](int i, Tensor& input) { mark_sharding(input, mesh, spec_of(mesh, input.ndim(), turn + i)); });
        const std::lock_guard lock(guard);
        for (std::size_t i = 0; rank == 0 && i < results.size(); ++i)
          for (std::size_t e = 0; e < results[i].size(); ++e)
            ASSERT_NEAR(results[i][e], expected[c][i][e], 1e-9 * (1 + std::fabs(expected[c][i][e])))
                << cases[c].name << " with dim " << turn << " sharded: " << (i == 0 ? "result" : "gradient")
                << " element " << e;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Meshes, FunctionLayouts, ::testing::Values("a=2", "a=3", "a=2,b=2", "a=2,b=3"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name)
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           return name;
                         });

}  // namespace
}  // namespace tessera::testing
