// SPDX-License-Identifier: Apache-2.0
// A linear layer and cross entropy whose vocabulary is sharded over ranks: each chunk of rows has separate all-reduces.
#include <gtest/gtest.h>

#include "runtime/close.h"
#include "tessera/base/options.h"
#include "tessera/collectives/virtual_ranks.h"
#include "tessera/ops/evaluate.h"
#include "tessera/runtime/executable/executable.h"

namespace tessera {
namespace {

constexpr std::int64_t kLogits = 48 * 301 * 4;  // bytes on a rank

// For 48 rows and 301 words on a rank: losses, the gradient of the rows (summed over ranks) and that of the rank's
// words.
Program sharded_vocabulary(int ranks) {
  const std::string all = fmt::format("replica_groups=[1,{0}]<=[{0}], use_global_device_ids=true, to_apply=%", ranks);
  return testing::read(fmt::format(R"(HloModule local, num_partitions={0}
%sum (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %r = f32[] add(%a, %b)
}}
%largest (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %r = f32[] maximum(%a, %b)
}}
ENTRY %main {{
  %x = f32[48,4] parameter(0)
  %words = f32[301,4] parameter(1)
  %labels = s32[48] parameter(2)
  %zero = f32[] constant(0)
  %low = f32[] constant(-inf)
  %logits = f32[48,301] dot(%x, %words), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  %own_max = f32[48] reduce(%logits, %low), dimensions={{1}}, to_apply=%largest
  %max = f32[48] all-reduce(%own_max), channel_id=1, {1}largest
  %max_of = f32[48,301] broadcast(%max), dimensions={{0}}
  %shifted = f32[48,301] subtract(%logits, %max_of)
  %e = f32[48,301] exponential(%shifted)
  %own_sum = f32[48] reduce(%e, %zero), dimensions={{1}}, to_apply=%sum
  %sums = f32[48] all-reduce(%own_sum), channel_id=2, {1}sum
  %sum_of = f32[48,301] broadcast(%sums), dimensions={{0}}
  %places = s32[48,301] iota(), iota_dimension=1
  %label_of = s32[48,301] broadcast(%labels), dimensions={{0}}
  %is_label = pred[48,301] compare(%places, %label_of), direction=EQ
  %zeros = f32[48,301] broadcast(%zero), dimensions={{}}
  %own_picked = f32[48,301] select(%is_label, %shifted, %zeros)
  %picked = f32[48] reduce(%own_picked, %zero), dimensions={{1}}, to_apply=%sum
  %target = f32[48] all-reduce(%picked), channel_id=3, {1}sum
  %log = f32[48] log(%sums)
  %losses = f32[48] subtract(%log, %target)
  %p = f32[48,301] divide(%e, %sum_of)
  %ones = f32[48,301] convert(%is_label)
  %d = f32[48,301] subtract(%p, %ones)
  %own_dx = f32[48,4] dot(%d, %words), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  %dx = f32[48,4] all-reduce(%own_dx), channel_id=4, {1}sum
  %dw = f32[301,4] dot(%d, %x), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  ROOT %out = (f32[48], f32[48,4], f32[301,4]) tuple(%losses, %dx, %dw)
}})",
                                   ranks, all));
}

class ShardedVocabulary : public ::testing::TestWithParam<int> {};

TEST_P(ShardedVocabulary, IsProcessedInChunksOnEveryRank) {
  const int ranks = GetParam();
  const Program program = sharded_vocabulary(ranks);
  std::vector<std::vector<Literal>> arguments;
  for (int rank = 0; rank < ranks; ++rank)
    arguments.push_back(testing::random_arguments(program, static_cast<unsigned>(rank) + 1));
  const auto expected = evaluate_lockstep(program, arguments);
  std::int64_t unchunked = 0;
  for (const std::int64_t most : {std::int64_t{0}, kLogits / 2, kLogits / 6}) {
    run_virtual_ranks(ranks, [&](ProcessGroup& world) {
      options().set("TESSERA_LARGEST_VALUE", std::to_string(most));  // on each rank
      EXPECT_TRUE(
          testing::close(run_program(program, world, at(arguments, world.rank())), at(expected, world.rank()), 32))
          << "rank " << world.rank() << ", at most " << most << " bytes";
      const std::int64_t arena = compile(program, world)->memory().arena;
      if (most == 0 && world.rank() == 0) unchunked = arena;
      if (most == kLogits / 6 && world.rank() == 0) {
        EXPECT_LT(arena, unchunked - kLogits / 2);
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, ShardedVocabulary, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace tessera
