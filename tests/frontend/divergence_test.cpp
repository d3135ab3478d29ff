// SPDX-License-Identifier: Apache-2.0
// Ranks that trace different programs get an error with the location and the cause, instead of a hang.
#include <gtest/gtest.h>

#include <cmath>

#include "frontend/on_ranks.h"
#include "tessera/base/options.h"
#include "tessera/frontend/compile/compiled_function.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

std::string message_of(int ranks, const std::function<void(int)>& body) {
  try {
    on_ranks(ranks, body);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}
// Replaces the line numbers of this file from `first` on by LINE+0, LINE+1, …
std::string relative(std::string text, int first) {
  for (int offset = 20; offset >= 0; --offset) {
    const std::string here = fmt::format("divergence_test.cpp:{}", first + offset);
    for (auto place = text.find(here); place != std::string::npos; place = text.find(here, place + 1))
      text.replace(place, here.size(), fmt::format("LINE+{}", offset));
  }
  return text;
}

TEST(Divergence, DifferentTracesNameTheFirstInstructionAndItsLineOnEveryRank) {
  const int line = __LINE__;
  const std::string text = message_of(3, [](int rank) {
    const Tensor x = Tensor::from<float>({2}, {1, 2});
    const Tensor y = rank == 1 ? x * 2.0 : x + x;
    mark_step();
  });
  EXPECT_EQ(
      relative(text, line),
      "rank 0 of 3: ranks traced different programs for mark_step at LINE+4; the first difference is instruction 1:\n"
      "  rank 0: %add = f32[2]{0} add(%input, %input)    LINE+3\n"
      "  rank 1: %constant = f32[] constant(2)    LINE+3\n"
      "  rank 2: %add = f32[2]{0} add(%input, %input)    LINE+3");
}

TEST(Divergence, CompleteValuesThatDifferBetweenRanksAreAnError) {
  const std::string text = message_of(3, [](int rank) {
    Tensor x = Tensor::from<float>({2}, {1, 2});
    Tensor rate = Tensor::scalar(DType::kF32, rank == 2 ? 0.5 : 0.25);
    rate.set_name("rate");
    const Tensor y = x * rate;
    mark_step();
  });
  EXPECT_NE(text.find(": input 1 rate f32[] (first used at divergence_test.cpp:"), std::string::npos) << text;
  EXPECT_NE(text.find(") is not the same on all ranks: rank 2 passes a different value than ranks 0, 1. "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("Tensor::from_local_shards"), std::string::npos) << text;
}

// A batch from a sampler that differs between ranks.
Tensor rows_of(float first) {
  Tensor x = Tensor::from<float>({4, 2}, {first, 1, 2, 3, 4, 5, 6, 7});
  mark_sharding(x, Mesh({{"data", 4}}), {"data", {}});
  return x;
}

TEST(Divergence, CompleteValuesThatDifferAreAnErrorEvenIfEachRankKeepsOnlyItsShard) {
  const std::string some = message_of(4, [](int rank) {
    Tensor x = rows_of(rank % 3 == 1 ? 8.0F : 9.0F);  // only rank 0 keeps the row that differs
    x.set_name("batch");
    const Tensor loss = sum(x);
    mark_step();
  });
  EXPECT_NE(some.find("input 0 batch f32[4,2] (first used at divergence_test.cpp:"), std::string::npos) << some;
  EXPECT_NE(some.find("rank 1 passes a different value than ranks 0, 2, 3"), std::string::npos) << some;
  const std::string all = message_of(4, [](int rank) { (void)sum(rows_of(static_cast<float>(rank))).item(); });
  EXPECT_NE(all.find("each of the 4 ranks passes a different value"), std::string::npos) << all;
}

TEST(Divergence, ArgumentsOfACompiledFunctionThatDifferAreAnError) {
  const std::string text = message_of(4, [](int rank) {
    CompiledFunction f = compile([](const std::vector<Tensor>& in) { return std::vector<Tensor>{sum(in[0])}; });
    for (const float first : {1.0F, 2.0F, static_cast<float>(rank / 2)}) (void)f({rows_of(first)});
  });
  EXPECT_NE(text.find("ranks 2, 3 pass different values than ranks 0, 1"), std::string::npos) << text;
}

TEST(Divergence, CompleteValuesAreComparedBitByBit) {
  const auto halves = [](float even, float odd) {
    return message_of(4, [=](int rank) { (void)sum(rows_of(rank % 2 == 0 ? even : odd)).item(); });
  };
  EXPECT_NE(halves(0.0F, -0.0F).find("ranks 1, 3 pass different values than ranks 0, 2"), std::string::npos);
  EXPECT_EQ(halves(std::nanf("1"), std::nanf("1")), "no error");
  EXPECT_NE(halves(std::nanf("1"), std::nanf("2")).find("ranks 1, 3 pass different values"), std::string::npos);
}

TEST(Divergence, ShardsAndResultsMayDifferBetweenRanks) {
  on_ranks(4, [](int rank) {
    const Mesh mesh({{"data", 2}, {"model", 2}});
    const Tensor own = Tensor::from_local_shards(Type::array(DType::kF32, {2}), mesh, {"data"},
                                                 Literal::from<float>({1}, {static_cast<float>(rank / 2)}));
    Tensor w = Tensor::from<float>({2}, {1, 2});
    w.assign(w + sum(own));
    mark_step();
    // One rank reads a result and passes it again; the other ranks use the result itself.
    const Tensor again = rank == 1 ? Tensor::from_host(w.to_host()) : w;
    for (int step = 0; step < 2; ++step) {
      const Tensor y = again * 2.0;
      mark_step();
      EXPECT_TRUE(y.is_materialized());
    }
  });
}

// One rank loads weights after the first step, the others keep theirs.
TEST(Divergence, AValueThatOneRankPassesInPlaceOfAResultIsADifference) {
  for (const bool is_sharded : {false, true}) {
    const std::string text = message_of(3, [&](int rank) {
      const Mesh mesh({{"data", 3}});
      Tensor w = Tensor::from<float>({5}, {1, 2, 3, 4, 5});
      if (is_sharded) mark_sharding(w, mesh, {"data"});
      w.assign(w * 2.0);
      mark_step();
      if (rank == 1) w.assign(Tensor::from<float>({5}, {2, 4, 6, 8, 11}));
      const Tensor y = w + 1.0;
      mark_step();
    });
    EXPECT_NE(text.find("is not the same on all ranks: rank 1 passes a value of the host, "), std::string::npos)
        << text;
    // Under {data}, only the tile of rank 2 differs.
    EXPECT_NE(text.find(is_sharded ? "rank 2 uses a different result" : "ranks 0, 2 use a different result"),
              std::string::npos)
        << text;
  }
}

TEST(Divergence, AShardedResultThatOneRankPassesAgainIsNoDifference) {
  on_ranks(3, [](int rank) {
    const Mesh mesh({{"data", 3}});
    Tensor w = Tensor::from<float>({5}, {1, 2, 3, 4, 5});
    mark_sharding(w, mesh, {"data"});
    w.assign(w * 2.0);
    mark_step();
    const Literal complete = w.to_host();
    if (rank == 2) w.assign(Tensor::from_host(complete));
    for (int step = 0; step < 2; ++step) {
      const Tensor y = w + 1.0;
      mark_step();
      EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{3, 5, 7, 9, 11}));
    }
  });
}

// A sampler that depends on the rank, beside tensor parallelism. 3 rows over 2 tiles have a row of padding, which may
// differ.
TEST(Divergence, ShardsThatDifferWhereTheShardingPlacesTheSameElementsAreADifference) {
  const auto message = [](bool is_replicated, auto value) {
    return message_of(6, [=](int rank) {
      const Mesh mesh({{"data", 2}, {"model", 3}});
      const PartitionSpec spec = is_replicated ? PartitionSpec{{}, {}} : PartitionSpec{"data", {}};
      std::vector<float> rows(is_replicated ? 3 : 2, value(rank));
      if (!is_replicated && rank >= 3) rows.back() = static_cast<float>(-rank);
      const auto count = static_cast<std::int64_t>(rows.size());
      const Tensor own = Tensor::from_local_shards(Type::array(DType::kF32, {3, 1}), mesh, spec,
                                                   Literal::from<float>({count, 1}, rows));
      (void)sum(own).item();
    });
  };
  const auto of_rank = [](int rank) { return static_cast<float>(rank); };
  const std::string text = message(false, of_rank);
  EXPECT_NE(text.find("ranks 0 and 1 pass different shards to Tensor::from_local_shards, but {data,-} over "
                      "mesh<data=2, model=3> places the same elements on both"),
            std::string::npos)
      << text;
  EXPECT_NE(message(false, [](int rank) { return rank == 5 ? 1.0F : 0.0F; }).find("ranks 3 and 5 pass different"),
            std::string::npos);
  EXPECT_NE(message(true, of_rank).find("ranks 0 and 1 pass different shards"), std::string::npos);
  EXPECT_EQ(message(false, [](int rank) { return static_cast<float>(rank / 3); }), "no error");
  EXPECT_EQ(message(true, [](int) { return std::nanf("1"); }), "no error");
}

TEST(Divergence, CompleteValuesAreNotComparedIfTheUserDisablesIt) {
  on_ranks(4, [](int rank) {
    options().set("TESSERA_CHECK_INPUTS", "0");
    // Each rank's own row; the first row is that of rank 0.
    EXPECT_EQ(sum(rows_of(static_cast<float>(rank))).item(), 28);
  });
}

TEST(Divergence, ACompleteValueThatOneRankReadIsNoDifference) {
  on_ranks(2, [](int rank) {
    Tensor x = Tensor::from<float>({2}, {1, 2}) + 1.0;
    mark_step();
    if (rank == 0) {
      EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{2, 3}));
    }
    const Tensor y = x * 2.0;
    mark_step();
    EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{4, 6}));
  });
}

TEST(Divergence, DifferentShapesAreADifference) {
  const int line = __LINE__;
  const std::string text = message_of(2, [](int rank) {
    const Tensor y = sum(Tensor::from<float>({2 + rank}, std::vector<float>(static_cast<std::size_t>(2 + rank))));
    mark_step();
  });
  EXPECT_EQ(
      relative(text, line),
      "rank 0 of 2: ranks traced different programs for mark_step at LINE+3; the first difference is instruction 0:\n"
      "  rank 0: %input = f32[2]{0} parameter(0), sharding={replicated}    LINE+2\n"
      "  rank 1: %input = f32[3]{0} parameter(0), sharding={replicated}    LINE+2");
}

TEST(Divergence, AShardedValueReadByOneRankOnlyIsAnErrorThatNamesTheOtherRanks) {
  const int line = __LINE__;
  const std::string text = message_of(3, [](int rank) {
    const Tensor x = Tensor::from<float>({3}, {1, 2, 3});
    mark_sharding(x, Mesh({{"data", 3}}), {"data"});
    if (rank == 1) (void)x.to_host();
    const Tensor y = x + 1.0;
    mark_step();
  });
  // The process group detects this, because it compares the next operation of its members.
  EXPECT_EQ(relative(text, line),
            "rank 0 of 3: ranks diverge: rank 1 is at read of f32[3] at LINE+4 (it is sharded, so every rank must read "
            "it); ranks 0, 2 are at mark_step at LINE+6 (every rank must take part)");
}

TEST(Divergence, AReadWithoutTheOtherRanksIsAnErrorThatNamesThem) {
  const int line = __LINE__;
  const std::string text = message_of(2, [](int rank) {
    const Tensor x = Tensor::from<float>({2}, {1, 2});
    mark_sharding(x, Mesh({{"data", 2}}), {"data"});
    if (rank == 1) (void)x.to_host();
  });
  EXPECT_EQ(relative(text, line),
            "rank 1 of 2: rank 1 waits in read of f32[2] at LINE+4 (it is sharded, so every rank must read it); rank 0 "
            "has finished without joining");
}

TEST(Divergence, TheFirstReadOfAVariableNamesTheLineOfTheUser) {
  const int line = __LINE__;
  const std::string text = message_of(2, [](int rank) {
    const auto zeros_of = [](Builder& builder, const Type& type) { return ops::full(builder, type, 0); };
    const Tensor w = Tensor::deferred(Type::array(DType::kF32, {2}), zeros_of, "w");
    if (rank == 1) (void)w.to_host();
  });
  EXPECT_EQ(relative(text, line),
            "rank 1 of 2: rank 1 waits in initial values for read of w f32[2] at LINE+4 (every rank must take part); "
            "rank 0 has finished without joining");
}

TEST(Divergence, AMaterializedReplicatedValueMayBeReadByOneRank) {
  on_ranks(3, [](int rank) {
    const Tensor x = Tensor::from<float>({3}, {1, 2, 3});
    mark_sharding(x, Mesh({{"data", 3}}), {"data"});
    const Tensor y = sum(x);
    mark_step();
    if (rank == 2) {
      EXPECT_EQ(y.item(), 6);
    }
  });
}

}  // namespace
}  // namespace tessera
