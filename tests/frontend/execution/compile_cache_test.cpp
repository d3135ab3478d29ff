// SPDX-License-Identifier: Apache-2.0
// The bound of the cache of compiled programs (XLA_COMPILATION_CACHE_SIZE).
#include <gtest/gtest.h>

#include "frontend/on_ranks.h"
#include "frontend/tensors.h"
#include "support/error_of.h"
#include "tessera/base/options.h"
#include "tessera/frontend/compile/compiled_function.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {
namespace {

using testing::error_of;

void keep(std::string_view programs) { options().set("XLA_COMPILATION_CACHE_SIZE", programs); }

std::int64_t evictions() { return metrics().counter_value("CompileCacheEviction").value_or(0); }

// Runs a step whose program depends on `size`. Returns 2 * (1 + .. + size).
double step_of(std::int64_t size) {
  const Tensor x = arange(size) + 1;
  const Tensor total = sum(x) * 2;
  mark_step();
  return total.item();
}

TEST(CompileCache, KeepsTheLastUsedProgramsAndCompilesOthersAgain) {
  const FreshRank rank;
  keep("2");
  EXPECT_EQ(step_of(2), 6);
  EXPECT_EQ(step_of(3), 12);
  EXPECT_EQ(step_of(2), 6);
  EXPECT_EQ(step_of(4), 20);  // evicts that of 3
  EXPECT_EQ(lazy_counters().compilations, 3);
  EXPECT_EQ(evictions(), 1);
  EXPECT_EQ(step_of(2), 6);
  EXPECT_EQ(lazy_counters().compilations, 3);
  EXPECT_EQ(step_of(3), 12);
  EXPECT_EQ(lazy_counters().compilations, 4);
  EXPECT_EQ(evictions(), 2);
  EXPECT_EQ(metrics().metric_data("CompileTime")->total_samples + metrics().counter_value("CachedCompile").value_or(0),
            metrics().metric_data("ExecuteTime")->total_samples);
}

TEST(CompileCache, EvictedProgramsAreFreed) {
  const FreshRank rank;
  keep("1");
  step_of(2);
  const std::weak_ptr<Executable> first = compiled_programs().back().executable;
  EXPECT_FALSE(first.expired());
  step_of(3);
  EXPECT_TRUE(first.expired());
  ASSERT_EQ(compiled_programs().size(), 1U);
  EXPECT_EQ(compiled_programs().front().number, 1);
}

TEST(CompileCache, NoProgramIsEvictedByDefault) {
  const FreshRank rank;
  for (std::int64_t size = 2; size < 12; ++size) step_of(size);
  EXPECT_EQ(evictions(), 0);
  EXPECT_EQ(compiled_programs().size(), 10U);
}

TEST(CompileCache, RanksCompileEvictedProgramsAgainTogether) {
  const auto sums = [](std::string_view size) {
    std::vector<double> out;
    on_ranks(3, [&](int rank) {
      keep(size);
      for (const std::int64_t rows : {4, 5, 4, 7, 5}) {
        const Tensor x = rand(Key(3), {rows, 2}, DType::kF64);
        mark_sharding(x, Mesh({{"data", 3}}), {"data", {}});
        const Tensor total = sum(square(x));
        mark_step();
        const double value = total.item();
        if (rank == 0) out.push_back(value);
      }
      if (size == "1") {
        EXPECT_EQ(evictions(), 4);
      }
    });
    return out;
  };
  EXPECT_EQ(sums("1"), sums("1024"));
}

TEST(CompileCache, ACompiledFunctionKeepsItsPrograms) {
  const FreshRank rank;
  keep("1");
  CompiledFunction doubled = compile([](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * 2.0}; });
  const Tensor x = Tensor::from<float>({2}, {1, 2});
  (void)doubled({x});
  step_of(3);
  const std::int64_t before = lazy_counters().compilations;
  EXPECT_EQ(doubled({x}).front().to_vector<float>(), (std::vector<float>{2, 4}));
  EXPECT_EQ(lazy_counters().compilations, before);
}

TEST(CompileCache, DifferentSizesOnTheRanksAreAnError) {
  on_ranks(3, [](int rank) {
    keep(rank == 1 ? "5" : "7");
    EXPECT_EQ(error_of([] { step_of(4); }),
              "XLA_COMPILATION_CACHE_SIZE must be equal on all ranks, but is 7 on ranks 0, 2; 5 on rank 1");
  });
}

TEST(CompileCache, ASizeBelowOneIsAnError) {
  EXPECT_TRUE(error_of([] {
                Options().set("XLA_COMPILATION_CACHE_SIZE", "0");
              }).starts_with("XLA_COMPILATION_CACHE_SIZE=0: must be at least 1 ("));
}

}  // namespace
}  // namespace tessera
