// SPDX-License-Identifier: Apache-2.0
// Groups over rows (reductions among elementwise ops), generators in one kernel, dots written in the layout of their
// consumers, and the lowering of gradients: compared with the reference evaluation, for each instruction set.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/close.h"
#include "runtime/on_each_isa.h"
#include "tessera/base/options.h"
#include "tessera/collectives/virtual_ranks.h"
#include "tessera/ir/text.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/structural.h"
#include "tessera/runtime/executable/executable.h"
#include "tessera/schedule/schedule.h"

namespace tessera {
namespace {

using testing::expect_on_each_isa;
using testing::program_of;
using testing::step_sizes;

// Broadcasts `row`, which lacks the last dims of x.
Value over_rows(Value row, Value x) {
  Dims places;
  for (int d = 0; d < row.type().ndim(); ++d) places.push_back(d);
  return ops::broadcast(row, x.type().dims(), places);
}
Dims last_dims(Value x, int count) {
  Dims out;
  for (int d = x.type().ndim() - count; d < x.type().ndim(); ++d) out.push_back(d);
  return out;
}
Value softmax(Value x, int dims = 1) {
  const Value largest = ops::reduce(x, Reduction::kMax, last_dims(x, dims));
  const Value e = ops::exp(ops::subtract(x, over_rows(largest, x)));
  return ops::divide(e, over_rows(ops::reduce(e, Reduction::kSum, last_dims(x, dims)), x));
}

TEST(Rows, ASoftmaxIsOneStepOverAnySizesAndTypes) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16})
    for (const Dims& dims : std::vector<Dims>{{1, 2}, {7, 5}, {3, 2, 97}, {2, 4099}, {129, 31}, {2, 3, 5, 7}}) {
      SCOPED_TRACE(::testing::Message() << dtype_name(dtype) << " x " << dims.back());
      for (const int reduced : {1, 2}) {
        const Program program = expect_on_each_isa({Type::array(dtype, dims)}, [&](Builder&, auto& v) {
          return softmax(v[0], std::min(reduced, isize(dims)));
        });
        EXPECT_EQ(step_sizes(program), std::vector<std::size_t>{5});
      }
    }
}

TEST(Rows, NansAndInfinitiesAffectOnlyTheirRows) {
  const Type type = Type::array(DType::kF32, {5, 37});
  const Program program = program_of({type}, [](Builder&, auto& v) { return softmax(v[0]); });
  std::vector<Literal> arguments = testing::random_arguments(program, 3);
  const auto x = arguments[0].mutable_data<float>();
  const float inf = std::numeric_limits<float>::infinity();
  x[3] = std::nanf("");
  x[37 + 36] = inf;
  for (std::size_t i = 2 * 37; i < 3 * 37; ++i) x[i] = -inf;
  x[3 * 37] = -inf;
  expect_on_each_isa(program, arguments);
}

TEST(Rows, LayerNormAndItsGradientKeepOneElementPerRow) {
  for (const DType dtype : {DType::kF32, DType::kF64})
    for (const Dims& dims : std::vector<Dims>{{3, 5}, {17, 129}, {2, 3, 768}}) {
      const std::int64_t width = dims.back();
      const int last = isize(dims) - 1;
      const Program program = expect_on_each_isa(
          {Type::array(dtype, dims), Type::array(dtype, {width}), Type::array(dtype, dims)}, [&](Builder& b, auto& v) {
            const auto mean = [&](Value a) {
              const Value sum = ops::reduce(a, Reduction::kSum, {last});
              return ops::multiply(sum, ops::full(b, sum.type(), 1.0 / static_cast<double>(width)));
            };
            const Value centered = ops::subtract(v[0], over_rows(mean(v[0]), v[0]));
            const Value variance = mean(ops::multiply(centered, centered));
            const Value scale = ops::rsqrt(ops::add(variance, ops::full(b, variance.type(), 1e-5)));
            const Value normal = ops::multiply(centered, over_rows(scale, v[0]));
            const Value y = ops::multiply(normal, ops::broadcast(v[1], dims, {last}));
            const Value dy = ops::multiply(v[2], ops::broadcast(v[1], dims, {last}));
            const Value down = ops::subtract(ops::subtract(dy, over_rows(mean(dy), dy)),
                                             ops::multiply(normal, over_rows(mean(ops::multiply(dy, normal)), dy)));
            return ops::tuple(b, {y, ops::multiply(down, over_rows(scale, dy)), scale});
          });
      EXPECT_LE(step_sizes(program).size(), 3U);
    }
}

// Selects the label's logit by position. One pass computes the losses (one for each row) and the gradient.
TEST(Rows, CrossEntropyAndItsGradientMatchTheReference) {
  for (const std::int64_t classes : {3, 50, 4999, 9001}) {
    const Dims dims = {4, classes};
    expect_on_each_isa({Type::array(DType::kF32, dims), Type::array(DType::kS32, {4})}, [&](Builder& b, auto& v) {
      const Value largest = ops::reduce(v[0], Reduction::kMax, {1});
      const Value shifted = ops::subtract(v[0], over_rows(largest, v[0]));
      const Value e = ops::exp(shifted);
      const Value sum = ops::reduce(e, Reduction::kSum, {1});
      const Value places = ops::iota(b, Type::array(DType::kS32, dims), 1);
      const Value is_label = ops::compare(places, over_rows(v[1], v[0]), CompareDirection::kEq);
      const Value picked =
          ops::reduce(ops::select(is_label, shifted, ops::full(b, v[0].type(), 0)), Reduction::kSum, {1});
      const Value gradient = ops::subtract(ops::divide(e, over_rows(sum, e)), ops::convert(is_label, DType::kF32));
      return ops::tuple(b, {ops::subtract(ops::log(sum), picked), gradient});
    });
  }
}

TEST(Rows, IotasAreSupportedInEveryType) {
  for (const DType dtype : {DType::kU8, DType::kS16, DType::kS32, DType::kS64, DType::kBF16, DType::kF32, DType::kF64})
    for (const Dims& dims : std::vector<Dims>{{7, 100}, {3, 5003}, {2, 3, 1501}}) {
      if (dims.back() > 100 && dtype_size(dtype) == 1) continue;
      expect_on_each_isa({Type::array(dtype, dims)}, [&](Builder& b, auto& v) {
        const int last = static_cast<int>(dims.size()) - 1;
        const Value sum = ops::add(v[0], ops::iota(b, v[0].type(), last));
        return ops::multiply(sum, over_rows(ops::reduce(v[0], Reduction::kMax, {last}), v[0]));
      });
    }
}

TEST(Rows, AResultMayReuseTheBufferOfTheOperandOfItsReduction) {
  const Type type = Type::array(DType::kF32, {9, 77});
  Program program = program_of({type}, [](Builder&, auto& v) {
    const Value sum = ops::reduce(v[0], Reduction::kSum, {1});
    return ops::add(ops::multiply(v[0], over_rows(sum, v[0])), v[0]);
  });
  program.aliases.push_back({{}, 0, {}, false});
  EXPECT_EQ(make_schedule(program)->arena_bytes, 0);
  expect_on_each_isa(program, testing::random_arguments(program, 2));
}

// The sum is written over the operand of the quotient, which the same phase of a long row computes.
TEST(Rows, AReductionMayOverwriteAnOperandOfAnEarlierStepOfLongRows) {
  for (const int columns : {4, 4096, 4097, 9001}) {
    const std::string text = fmt::format(
        R"(HloModule m
sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}
ENTRY e {{
  x = f32[4,{0}] parameter(0) n = f32[4] parameter(1) k = f32[4,4] parameter(2)
  den = f32[4] dot(k, n), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  z = f32[] constant(0) q = f32[4] divide(n, den) qb = f32[4,{0}] broadcast(q), dimensions={{0}}
  s = f32[4,{0}] multiply(x, x) r = f32[4] reduce(s, z), dimensions={{1}}, to_apply=sum
  m = f32[4,{0}] multiply(qb, s) ROOT t = (f32[4], f32[4,{0}]) tuple(r, m) }})",
        columns);
    const Program program = parse_program(text, op_table());
    expect_on_each_isa(program, testing::random_arguments(program, 9));
  }
}

TEST(Rows, AReductionOfAllElementsMayBeAppliedToAllElements) {
  expect_on_each_isa({Type::array(DType::kF32, {13, 11})}, [](Builder&, auto& v) {
    const Value total = ops::reduce(v[0], Reduction::kSum, {0, 1});
    return ops::multiply(v[0], ops::broadcast(ops::rsqrt(ops::abs(total)), {13, 11}, {}));
  });
}

TEST(Generator, ItsRoundsAreExactAtEverySize) {
  for (const std::int64_t size : {1, 7, 31, 32, 33, 1000, 4097})
    expect_on_each_isa({Type::array(DType::kU32, {2})}, [&](Builder&, auto& v) {
      return ops::random_bits(v[0], {3, size}, {});
    });
  expect_on_each_isa({Type::array(DType::kU32, {2}), Type::array(DType::kF32, {5, 63})}, [&](Builder& b, auto& v) {
    const Value uniform = ops::random_uniform(v[0], {5, 63}, DType::kF32, {});
    const Value keep = ops::compare(uniform, ops::full(b, uniform.type(), 0.1), CompareDirection::kGe);
    return ops::select(keep, v[1], ops::full(b, v[1].type(), 0));
  });
}

// From hidden rows, a vocabulary and labels to the sum of losses, and to the gradients of rows and vocabulary.
Program linear_and_cross_entropy(const Dims& rows, std::int64_t width, std::int64_t classes) {
  Dims hidden = rows;
  hidden.push_back(width);
  Dims dims = rows;
  dims.push_back(classes);
  const int last = isize(rows);
  return program_of(
      {Type::array(DType::kF32, hidden), Type::array(DType::kF32, {classes, width}), Type::array(DType::kS32, rows)},
      [&](Builder& b, auto& v) {
        const Value logits = ops::dot(v[0], v[1], {{}, {last}, {}, {1}});
        const Value largest = ops::reduce(logits, Reduction::kMax, {last});
        const Value shifted = ops::subtract(logits, over_rows(largest, logits));
        const Value e = ops::exp(shifted);
        const Value sum = ops::reduce(e, Reduction::kSum, {last});
        const Value places = ops::iota(b, Type::array(DType::kS32, dims), last);
        const Value is_label = ops::compare(places, over_rows(v[2], logits), CompareDirection::kEq);
        const Value zero = ops::full(b, logits.type(), 0);
        const Value picked = ops::reduce(ops::select(is_label, shifted, zero), Reduction::kSum, {last});
        const Value losses = ops::subtract(ops::log(sum), picked);
        const Value d = ops::subtract(ops::divide(e, over_rows(sum, e)), ops::convert(is_label, DType::kF32));
        Dims kept;
        for (int i = 0; i < last; ++i) kept.push_back(i);
        return ops::tuple(b, {ops::reduce(losses, Reduction::kSum, kept), ops::dot(d, v[1], {{}, {last}, {}, {0}}),
                              ops::dot(d, v[0], {{}, kept, {}, kept})});
      });
}

TEST(Prepared, LogitsAndTheirGradientAreComputedInChunks) {
  const Program program = linear_and_cross_entropy({6, 5}, 7, 211);
  const auto world = make_single_rank_world();
  const std::int64_t logits = 6 * 5 * 211 * 4;
  std::vector<std::int64_t> arenas;
  for (const std::int64_t most : {std::int64_t{0}, logits / 2, logits / 6, std::int64_t{1}}) {
    options().set("TESSERA_LARGEST_VALUE", std::to_string(most));
    expect_on_each_isa(program, testing::random_arguments(program, 4));
    arenas.push_back(compile(program, *world)->memory().arena);
  }
  EXPECT_LT(arenas[2], arenas[0] - logits / 2);
  for (const Dims& rows : std::vector<Dims>{{1, 6}, {7}, {1, 1}, {2, 3, 2}})
    expect_on_each_isa(linear_and_cross_entropy(rows, 3, 29),
                       testing::random_arguments(linear_and_cross_entropy(rows, 3, 29), 9));
  options().set("TESSERA_LARGEST_VALUE", "67108864");
}

TEST(Prepared, ValuesThatAreNeededCompletelyAreNotChunked) {
  options().set("TESSERA_LARGEST_VALUE", "1");
  const Type square = Type::array(DType::kF32, {6, 6});
  expect_on_each_isa({square, square}, [](Builder& b, auto& v) {
    const Value d = ops::dot(v[0], v[1], {{}, {1}, {}, {0}});
    const Value e = ops::exp(d);
    return ops::tuple(b, {ops::reduce(e, Reduction::kSum, {1}), ops::dot(e, e, {{}, {1}, {}, {0}}), d});
  });
  expect_on_each_isa({square, square}, [](Builder& b, auto& v) {
    const Value d = ops::dot(v[0], v[1], {{}, {1}, {}, {0}});
    const Value row = ops::reduce(d, Reduction::kSum, {0});  // over the dim that would be chunked
    return ops::tuple(b, {ops::subtract(d, ops::broadcast(row, {6, 6}, {1}))});
  });
  options().set("TESSERA_LARGEST_VALUE", "67108864");
}

// Layers of causal attention over [b, t, h, d], and the gradients of the sum of their squares, as autodiff emits them.
Program attention_and_gradients(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d, int layers) {
  const Type type = Type::array(DType::kF32, {b, t, h, d});
  return program_of(std::vector<Type>(static_cast<std::size_t>(2 * layers + 1), type), [&](Builder& builder, auto& v) {
    const DotAttributes scores_of{{0, 2}, {3}, {0, 2}, {3}};  // [b, h, t, s]
    const DotAttributes mixed_of{{0, 1}, {3}, {0, 2}, {1}};   // [b, h, t, d]
    const DotAttributes turned_of{{0, 1}, {2}, {0, 2}, {1}};
    const Type square = Type::array(DType::kS32, {t, t});
    const Value seen =
        ops::compare(ops::iota(builder, square, 0), ops::iota(builder, square, 1), CompareDirection::kGe);
    const auto turned = [](Value x) { return ops::transpose(x, {0, 2, 1, 3}); };
    Value x = v[0];
    std::vector<Value> inputs{x};
    std::vector<Value> weights;
    for (int layer = 0; layer < layers; ++layer) {
      const Value s = ops::dot(x, v[static_cast<std::size_t>(2 * layer + 1)], scores_of);
      const Value all_seen = ops::broadcast(seen, s.type().dims(), {2, 3});
      const Value masked = ops::select(all_seen, s, ops::full(builder, s.type(), -1e30));
      const Value shifted =
          ops::subtract(masked, ops::broadcast(ops::reduce(masked, Reduction::kMax, {3}), s.type().dims(), {0, 1, 2}));
      const Value e = ops::exp(shifted);
      weights.push_back(
          ops::divide(e, ops::broadcast(ops::reduce(e, Reduction::kSum, {3}), s.type().dims(), {0, 1, 2})));
      x = turned(ops::dot(weights.back(), v[static_cast<std::size_t>(2 * layer + 2)], mixed_of));
      inputs.push_back(x);
    }
    std::vector<Value> out{x};
    Value dx = x;
    for (int layer = layers; layer-- > 0;) {
      const Value p = weights[static_cast<std::size_t>(layer)];
      const Value k = v[static_cast<std::size_t>(2 * layer + 1)];
      const Value values = v[static_cast<std::size_t>(2 * layer + 2)];
      const Value dp = ops::dot(dx, values, scores_of);
      const Value all_seen = ops::broadcast(seen, p.type().dims(), {2, 3});
      const Value inner = ops::reduce(ops::multiply(dp, p), Reduction::kSum, {3});
      const Value ds =
          ops::select(all_seen, ops::multiply(p, ops::subtract(dp, ops::broadcast(inner, p.type().dims(), {0, 1, 2}))),
                      ops::full(builder, p.type(), 0));
      out.push_back(turned(ops::dot(p, dx, turned_of)));
      out.push_back(turned(ops::dot(ds, inputs[static_cast<std::size_t>(layer)], turned_of)));
      dx = turned(ops::dot(ds, k, mixed_of));
    }
    out.push_back(dx);
    return ops::tuple(builder, out);
  });
}

TEST(Prepared, ScoresOfAttentionAreComputedInChunks) {
  const auto world = make_single_rank_world();
  const auto arena_at = [&](const Program& program, std::int64_t most) {
    options().set("TESSERA_LARGEST_SCORES", std::to_string(most));
    expect_on_each_isa(program, testing::random_arguments(program, 6));
    return compile(program, *world)->memory().arena;
  };
  const Program program = attention_and_gradients(3, 37, 5, 4, 2);
  constexpr std::int64_t kScores = 3 * 5 * 37 * 37 * 4;
  const std::int64_t unchunked = arena_at(program, 0);
  EXPECT_LT(arena_at(program, kScores / 3), unchunked - kScores);  // chunks of batches
  EXPECT_LT(arena_at(program, kScores / 5), unchunked - kScores);  // chunks of heads
  EXPECT_EQ(arena_at(program, kScores), unchunked);                // small enough
  const Program one_head = attention_and_gradients(1, 37, 1, 4, 1);
  EXPECT_LT(arena_at(one_head, 1), arena_at(one_head, 0));  // chunks of rows
  arena_at(attention_and_gradients(2, 19, 1, 3, 3), 1);
  options().set("TESSERA_LARGEST_SCORES", "4194304");
}

TEST(Prepared, ScoresThatAreResultsAreNotChunked) {
  options().set("TESSERA_LARGEST_SCORES", "1");
  const Type type = Type::array(DType::kF32, {3, 7, 2});
  expect_on_each_isa({type, type, type}, [](Builder& b, auto& v) {
    const Value scores = ops::dot(v[0], v[1], {{0}, {2}, {0}, {2}});
    const Value weights = ops::exp(scores);
    return ops::tuple(b, {ops::dot(weights, v[2], {{0}, {2}, {0}, {1}}), weights});
  });
  options().set("TESSERA_LARGEST_SCORES", "4194304");
}

TEST(Prepared, Bf16ValuesHaveExcessPrecisionWithinAGroup) {
  const Type type = Type::array(DType::kBF16, {5, 13});
  const auto world = make_single_rank_world();
  const Program program = program_of({type}, [](Builder& b, auto& v) {
    const auto all = [&](double x) { return ops::full(b, v[0].type(), x); };
    const Value twice = ops::multiply(v[0], all(2));
    const Value shifted = ops::subtract(ops::add(twice, all(256)), all(256));  // bf16 rounds 256.5 to 256
    const Value is_there = ops::compare(shifted, all(0), CompareDirection::kGt);
    return ops::tuple(b,
                      {shifted, ops::select(is_there, shifted, ops::negate(v[0])), ops::convert(shifted, DType::kF32)});
  });
  const auto first = [&](const char* excess) {
    options().set("TESSERA_EXCESS_PRECISION", excess);
    const Literal x = Literal::from<BFloat16>({5, 13}, std::vector<BFloat16>(65, BFloat16(0.25F)));
    const Literal out = run_program(program, *world, {x});
    options().set("TESSERA_EXCESS_PRECISION", "1");
    return std::vector<double>{element_as_double(out.elements()[0], 7), element_as_double(out.elements()[1], 7),
                               element_as_double(out.elements()[2], 7)};
  };
  EXPECT_EQ(first("1"), (std::vector<double>{0.5, 0.5, 0.5}));
  EXPECT_EQ(first("0"), (std::vector<double>{0, -0.25, 0}));
}

TEST(Prepared, Bf16ProductsAddToF32Sums) {
  const Type narrow = Type::array(DType::kBF16, {37, 64});
  expect_on_each_isa({narrow, Type::array(DType::kBF16, {37, 48}), Type::array(DType::kF32, {64, 48})},
                     [](Builder& b, auto& v) {
                       const Value product = ops::dot(v[0], v[1], {{}, {0}, {}, {0}}, DType::kF32);
                       return ops::tuple(b, {ops::add(ops::exp(v[2]), product)});
                     });
}

TEST(Prepared, SumsOfPaddedPartsBecomeACopy) {
  const Type part = Type::array(DType::kF32, {3, 2, 5});
  expect_on_each_isa({part, part, part}, [](Builder& b, auto& v) {
    const Value zero = ops::scalar(b, DType::kF32, 0);
    const auto padded = [&](Value x, std::int64_t low) {
      return ops::pad(x, zero, {{0, 0, 0}, {low, 4 - low, 0}, {0, 0, 0}});
    };
    return ops::add(ops::add(padded(v[1], 2), padded(v[0], 0)), padded(v[2], 4));
  });
  expect_on_each_isa({part, part}, [](Builder& b, auto& v) {  // with a gap it remains a sum
    const Value zero = ops::scalar(b, DType::kF32, 0);
    return ops::add(ops::pad(v[0], zero, {{0, 0, 0}, {0, 3, 0}, {0, 0, 0}}),
                    ops::pad(v[1], zero, {{0, 0, 0}, {3, 0, 0}, {0, 0, 0}}));
  });
}

}  // namespace
}  // namespace tessera
