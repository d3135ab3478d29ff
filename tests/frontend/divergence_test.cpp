// SPDX-License-Identifier: Apache-2.0
// Ranks that do different things are told so, with place and cause, before anything hangs.
#include <gtest/gtest.h>

#include "frontend/on_ranks.h"
#include "tessera/frontend/functions.h"
#include "tessera/frontend/mark_sharding.h"

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
void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const auto& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in:\n" << text;
}

TEST(Divergence, DifferentTracesNameTheFirstInstructionAndItsLineOnEveryRank) {
  const int line = __LINE__ + 3;
  const std::string text = message_of(3, [](int rank) {
    const Tensor x = Tensor::from<float>({2}, {1, 2});
    const Tensor y = rank == 1 ? x * 2.0 : x + x;
    mark_step();
  });
  expect_parts(text, {"ranks traced different programs for mark_step at divergence_test.cpp",
                      "they part at instruction", "\n  rank 0: ", "\n  rank 1: ", "\n  rank 2: "});
  // Ranks 0 and 2 add, rank 1 needs a constant first: each with its line.
  const std::string place = fmt::format("divergence_test.cpp:{}\n", line);
  EXPECT_NE(text.find("add(%input, %input)    " + place), std::string::npos) << text;
  EXPECT_NE(text.find("constant(2)    " + place), std::string::npos) << text;
}

TEST(Divergence, DifferentShapesAreADifference) {
  const std::string text = message_of(2, [](int rank) {
    const Tensor y = sum(Tensor::from<float>({2 + rank}, std::vector<float>(static_cast<std::size_t>(2 + rank))));
    mark_step();
  });
  expect_parts(text, {"they part at instruction 0", "f32[2]", "f32[3]"});
}

TEST(Divergence, AShardedValueReadByOneRankOnlyIsAnErrorThatSaysSo) {
  const std::string text = message_of(2, [](int rank) {
    const Tensor x = Tensor::from<float>({2}, {1, 2});
    mark_sharding(x, Mesh({{"data", 2}}), {"data"});
    if (rank == 0) (void)x.to_host();
    const Tensor y = x + 1.0;
    mark_step();
  });
  // Found by the process group, which compares what its members are about to do.
  expect_parts(text,
               {"rank 0 at read of f32[2] at divergence_test.cpp", "rank 1 is at mark_step at divergence_test.cpp",
                "it is not whole on every rank, so every rank must read it"});
}

TEST(Divergence, AReadThatOthersNeverJoinIsAnError) {
  const std::string text = message_of(2, [](int rank) {
    const Tensor x = Tensor::from<float>({2}, {1, 2});
    mark_sharding(x, Mesh({{"data", 2}}), {"data"});
    if (rank == 1) (void)x.to_host();
  });
  expect_parts(text, {"read of f32[2] at divergence_test.cpp"});
}

TEST(Divergence, AMaterializedWholeValueMayBeReadByOneRank) {
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
