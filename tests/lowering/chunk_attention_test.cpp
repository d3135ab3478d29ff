// SPDX-License-Identifier: Apache-2.0
// Attention and large products in chunks (chunk_attention, chunk_logits) give the same values in a smaller arena.
#include <gtest/gtest.h>

#include <random>

#include "runtime/close.h"
#include "support/sanitizers.h"
#include "tessera/base/options.h"
#include "tessera/collectives/virtual_ranks.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"
#include "tessera/runtime/executable/executable.h"
#include "tessera/schedule/schedule.h"

namespace tessera {
namespace {

using testing::program_of;
using testing::random_arguments;

enum class Mask : std::uint8_t { kNone, kCausal, kGiven, kBias };

struct Attention {
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t queries = 1;
  std::int64_t keys = 1;
  std::int64_t width = 4;
  DType dtype = DType::kF32;
  Mask mask = Mask::kCausal;
  double dropout = 0;
  bool same_keys = false;  // the queries are also the keys
  bool with_gradients = true;

  [[nodiscard]] std::int64_t score_bytes() const { return batch * heads * queries * keys * dtype_size(dtype); }
  [[nodiscard]] std::string str() const {
    return fmt::format("[{},{},{},{},{}] {} mask {} dropout {} same {} gradients {}", batch, heads, queries, keys,
                       width, dtype_name(dtype), static_cast<int>(mask), dropout, same_keys, with_gradients);
  }
};

Value along_rows(Value row, Value x) { return ops::broadcast(row, x.type().dims(), {0, 1, 2}); }

// Applies the mask to the scores. The last parameter is a mask [queries, keys].
Value masked(Builder& b, const Attention& a, Value scores, Value given) {
  const auto& dims = scores.type().dims();
  const Value never = ops::full(b, scores.type(), -1e30);
  const auto all = [&](Value square) { return ops::broadcast(square, dims, {2, 3}); };
  if (a.mask == Mask::kNone) return scores;
  if (a.mask == Mask::kBias) return ops::add(scores, all(given));
  const Type square = Type::array(DType::kS32, {a.queries, a.keys});
  const Value seen = a.mask == Mask::kCausal
                         ? ops::compare(ops::iota(b, square, 0), ops::iota(b, square, 1), CompareDirection::kGe)
                         : ops::compare(given, ops::full(b, given.type(), -1.5), CompareDirection::kGt);
  return ops::select(all(seen), scores, never);
}

// Returns a program from queries, keys, values [b, h, t, d], a mask and a random key to the attention output, and to
// gradients with the output as its own cotangent.
Program attention(const Attention& a) {
  const Type queries = Type::array(a.dtype, {a.batch, a.heads, a.queries, a.width});
  const Type keys = Type::array(a.dtype, {a.batch, a.heads, a.keys, a.width});
  const std::vector<Type> types{queries, keys, keys, Type::array(a.dtype, {a.queries, a.keys}),
                                Type::array(DType::kU32, {2})};
  return program_of(types, [&](Builder& b, auto& v) {
    const DotAttributes over_width{{0, 1}, {3}, {0, 1}, {3}};
    const DotAttributes over_keys{{0, 1}, {3}, {0, 1}, {2}};
    const DotAttributes over_queries{{0, 1}, {2}, {0, 1}, {2}};
    const Value k = a.same_keys ? v[0] : v[1];
    const Value s = masked(b, a, ops::dot(v[0], k, over_width), v[3]);
    const Value shifted = ops::subtract(s, along_rows(ops::reduce(s, Reduction::kMax, {3}), s));
    const Value e = ops::exp(shifted);
    const Value p = ops::divide(e, along_rows(ops::reduce(e, Reduction::kSum, {3}), e));
    const auto dropped = [&](Value x) {
      if (a.dropout == 0) return x;
      const Value uniform = ops::random_uniform(v[4], x.type().dims(), DType::kF32);
      const Value keep = ops::compare(uniform, ops::full(b, uniform.type(), a.dropout), CompareDirection::kGe);
      return ops::select(keep, x, ops::full(b, x.type(), 0));
    };
    const Value weights = dropped(p);
    const Value mixed = ops::dot(weights, v[2], over_keys);
    if (!a.with_gradients) return mixed;
    const Value dp = dropped(ops::dot(mixed, v[2], over_width));
    const Value inner = ops::reduce(ops::multiply(dp, p), Reduction::kSum, {3});
    const Value ds = ops::multiply(p, ops::subtract(dp, along_rows(inner, dp)));
    return ops::tuple(b, {mixed, ops::dot(ds, k, over_keys), ops::dot(ds, v[0], over_queries),
                          ops::dot(weights, mixed, over_queries)});
  });
}

class AttentionChunks : public ::testing::Test {
 protected:
  ~AttentionChunks() override {
    options().set("TESSERA_LARGEST_SCORES", "4194304");
    options().set("TESSERA_LARGEST_VALUE", "67108864");
  }
  std::int64_t arena_at(const Program& program, std::int64_t most) {
    options().set("TESSERA_LARGEST_SCORES", std::to_string(most));
    return compile(program, *world_)->memory().arena;
  }
  Literal run_at(const Program& program, std::int64_t most) {
    options().set("TESSERA_LARGEST_SCORES", std::to_string(most));
    return run_program(program, *world_, random_arguments(program, 7));
  }
  std::shared_ptr<ProcessGroup> world_ = make_single_rank_world();
};

TEST_F(AttentionChunks, RowsOfOneHeadAreChunked) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const std::int64_t time : {257, 1021}) {
      const Attention a{.queries = time, .keys = time, .width = 8, .dtype = dtype};
      const Program program = attention(a);
      const Literal unchunked = run_at(program, 0);
      const std::int64_t arena = arena_at(program, 0);
      for (const std::int64_t parts : {2, 3, 7, 64}) {
        const std::int64_t most = ceil_div(a.score_bytes(), parts);
        EXPECT_TRUE(testing::close(run_at(program, most), unchunked, 64)) << a.str() << " in " << parts;
        EXPECT_LE(arena_at(program, most), arena) << a.str() << " in " << parts;
        if (parts < 7) continue;
        EXPECT_LT(arena_at(program, most), arena - a.score_bytes()) << a.str() << " in " << parts;
      }
      EXPECT_EQ(arena_at(program, a.score_bytes()), arena) << "small enough";
    }
}

TEST_F(AttentionChunks, HeadsAreChunkedBeforeRows) {
  const Attention a{.heads = 3, .queries = 131, .keys = 131};
  const Program program = attention(a);
  const Literal unchunked = run_at(program, 0);
  const std::int64_t by_heads = arena_at(program, a.score_bytes() / 3);
  const std::int64_t by_both = arena_at(program, a.score_bytes() / 30);
  EXPECT_LT(by_heads, arena_at(program, 0) - a.score_bytes());
  EXPECT_LT(by_both, by_heads - a.score_bytes() / 4);
  EXPECT_TRUE(testing::close(run_at(program, a.score_bytes() / 30), unchunked, 64));
}

TEST_F(AttentionChunks, RandomAttentionEqualsTheReference) {
  std::mt19937 random(3);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int trial = 0; trial < testing::cases_here(40); ++trial) {
    Attention a;
    a.batch = pick(1, 2);
    a.heads = pick(1, 3);
    a.queries = pick(9, 41);
    a.same_keys = pick(0, 3) == 0;
    a.keys = a.same_keys || pick(0, 1) == 0 ? a.queries : pick(9, 41);
    a.width = pick(1, 4);
    a.dtype = pick(0, 2) == 0 ? DType::kBF16 : DType::kF32;
    a.mask = static_cast<Mask>(pick(0, 3));
    a.dropout = pick(0, 2) == 0 ? 0.25 : 0;
    a.with_gradients = pick(0, 3) > 0;
    const Program program = attention(a);
    const Literal expected = evaluate(program, random_arguments(program, 7));
    const std::int64_t most = a.score_bytes() / pick(2, 80);
    EXPECT_TRUE(testing::close(run_at(program, most), expected, 64)) << a.str() << " at " << most;
    constexpr std::int64_t kWorkspace = 16384;  // for kernels: not part of the plan whose size must shrink
    EXPECT_LE(arena_at(program, most), arena_at(program, 0) + kWorkspace) << a.str() << " at " << most;
    ExecutableOptions by_reference;
    by_reference.reference = true;
    EXPECT_TRUE(
        testing::close(run_program(program, *world_, random_arguments(program, 7), by_reference), expected, 64));
  }
}

// In one program, scores that are also a result stay complete, and the other scores are chunked.
TEST_F(AttentionChunks, ScoresThatAreAResultDoNotPreventChunkingOfOthers) {
  const Type small = Type::array(DType::kF32, {1, 17, 2});
  const Type large = Type::array(DType::kF32, {1, 61, 2});
  const Program program = program_of({small, small, large, large, large}, [](Builder& b, auto& v) {
    const Value leaves = ops::tanh(ops::dot(v[0], v[1], {{0}, {2}, {0}, {2}}));
    const Value weights = ops::tanh(ops::dot(v[2], v[3], {{0}, {2}, {0}, {2}}));
    return ops::tuple(b, {leaves, ops::dot(weights, v[4], {{0}, {2}, {0}, {1}})});
  });
  constexpr std::int64_t kScores = 61 * 61 * 4;
  EXPECT_LT(arena_at(program, 256), arena_at(program, 0) - kScores / 2);
  EXPECT_TRUE(testing::close(run_at(program, 256), evaluate(program, random_arguments(program, 7)), 64));
}

TEST_F(AttentionChunks, RowsWithoutBatchDimsAreChunked) {
  const Type type = Type::array(DType::kF32, {59, 3});
  const Program program = program_of({type, type, type}, [](Builder&, auto& v) {
    const Value weights = ops::tanh(ops::dot(v[0], v[1], {{}, {1}, {}, {1}}));
    return ops::dot(weights, v[2], {{}, {1}, {}, {0}});
  });
  EXPECT_LT(arena_at(program, 1024), arena_at(program, 0) - 59 * 59 * 4 / 2);
  EXPECT_TRUE(testing::close(run_at(program, 1024), evaluate(program, random_arguments(program, 7)), 64));
}

// A prime number of rows, and few rows whose chunks are still too large.
TEST_F(AttentionChunks, LargeProductsAreChunkedUnevenlyAndAlongTwoDims) {
  for (const Dims& rows : std::vector<Dims>{{37}, {2, 37}, {38}, {3, 1, 11}}) {
    Dims hidden = rows;
    hidden.push_back(3);
    const int last = isize(rows);
    const Program program =
        program_of({Type::array(DType::kF32, hidden), Type::array(DType::kF32, {501, 3})}, [&](Builder& b, auto& v) {
          const Value e = ops::exp(ops::dot(v[0], v[1], {{}, {last}, {}, {1}}));
          Dims kept;
          for (int d = 0; d < last; ++d) kept.push_back(d);
          const Value sums = ops::reduce(e, Reduction::kSum, {last});
          const Value p = ops::divide(e, ops::broadcast(sums, e.type().dims(), kept));
          return ops::tuple(b, {ops::dot(p, v[1], {{}, {last}, {}, {0}}), ops::dot(p, v[0], {{}, kept, {}, kept})});
        });
    std::int64_t bytes = 501 * 4;
    for (const auto size : rows) bytes *= size;
    const auto arena_of = [&](std::int64_t most) {
      options().set("TESSERA_LARGEST_VALUE", std::to_string(most));
      return compile(program, *world_)->memory().arena;
    };
    const std::int64_t unchunked = arena_of(0);
    EXPECT_LT(arena_of(bytes / 7), unchunked - bytes / 2) << rows.size() << " dims, " << rows[0];
    EXPECT_TRUE(testing::close(run_program(program, *world_, random_arguments(program, 7)),
                               evaluate(program, random_arguments(program, 7)), 64));
  }
}

TEST_F(AttentionChunks, EveryLargeProductIsChunked) {
  const Type rows = Type::array(DType::kF32, {24, 3});
  const Type classes = Type::array(DType::kF32, {101, 3});
  const Program program = program_of({rows, classes, rows, classes}, [](Builder& b, auto& v) {
    const auto head = [&](std::size_t i) {
      const Value e = ops::exp(ops::dot(v[i], v[i + 1], {{}, {1}, {}, {1}}));
      const Value sums = ops::reduce(e, Reduction::kSum, {1});
      const Value p = ops::divide(e, ops::broadcast(sums, e.type().dims(), {0}));
      return std::vector<Value>{ops::dot(p, v[i + 1], {{}, {1}, {}, {0}}), ops::dot(p, v[i], {{}, {0}, {}, {0}})};
    };
    std::vector<Value> out = head(0);
    for (const Value value : head(2)) out.push_back(value);
    return ops::tuple(b, out);
  });
  constexpr std::int64_t kLogits = 24 * 101 * 4;
  const auto arena_of = [&](std::int64_t most) {
    options().set("TESSERA_LARGEST_VALUE", std::to_string(most));
    return compile(program, *world_)->memory().arena;
  };
  const std::int64_t unchunked = arena_of(0);
  EXPECT_LT(arena_of(kLogits / 6), unchunked - kLogits / 2);
  EXPECT_TRUE(testing::close(run_program(program, *world_, random_arguments(program, 7)),
                             evaluate(program, random_arguments(program, 7)), 64));
}

}  // namespace
}  // namespace tessera
