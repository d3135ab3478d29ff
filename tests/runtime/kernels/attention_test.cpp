// SPDX-License-Identifier: Apache-2.0
// The kernels of attention over several blocks of rows and keys, compared with the reference evaluation, for each
// instruction set.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/on_each_isa.h"
#include "tessera/ops/attention.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

using testing::expect_on_each_isa;

struct Sizes {
  std::int64_t batch, rows, heads, key_heads, keys, depth, value_depth;
};

using Extend = std::function<ops::AttentionOperands(Builder&, ops::AttentionOperands)>;

// (output, log-sum-exp, d_q, d_k, d_v).
Program attention_program(const Sizes& s, DType dtype, const ops::AttentionOperands& options, const Extend& extend) {
  const std::vector<Type> types{Type::array(dtype, {s.batch, s.rows, s.heads, s.depth}),
                                Type::array(dtype, {s.batch, s.keys, s.key_heads, s.depth}),
                                Type::array(dtype, {s.batch, s.keys, s.key_heads, s.value_depth}),
                                Type::array(dtype, {s.batch, s.rows, s.heads, s.value_depth})};
  return testing::program_of(types, [&](Builder& b, auto& v) {
    const ops::AttentionOperands all = extend ? extend(b, options) : options;
    const Value forward = ops::attention(v[0], v[1], v[2], all);
    const Value log_sum = ops::get_tuple_element(forward, 1);
    const Value delta = ops::multiply(log_sum, ops::full(b, log_sum.type(), 0.1));
    // A hidden row would give inf - inf.
    const Value finite = ops::select(ops::is_finite(delta), delta, ops::full(b, delta.type(), 0));
    const Value backward = ops::attention_backward(v[0], v[1], v[2], v[3], log_sum, finite, all);
    std::vector<Value> out{ops::get_tuple_element(forward, 0), log_sum};
    for (int i = 0; i < 3; ++i) out.push_back(ops::get_tuple_element(backward, i));
    return ops::tuple(b, out);
  });
}

// Compares results for random operands. 16-bit results are compared in f32, with a bound for their rounding.
void expect_as_reference(const Sizes& s, DType dtype, const ops::AttentionOperands& options, double units,
                         const Extend& extend = {}) {
  const Program program = attention_program(s, dtype, options, extend);
  expect_on_each_isa(program, testing::random_arguments(program, 5), units);
}

TEST(AttentionKernels, SpanBlocksOfRowsAndKeys) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    SCOPED_TRACE(dtype_name(dtype));
    expect_as_reference({2, 67, 2, 2, 131, 19, 21}, dtype, {.scale = 0.2}, 400);
    expect_as_reference({1, 150, 2, 2, 150, 16, 16}, dtype, {.causal = true, .scale = 0.3}, 400);
    expect_as_reference({1, 65, 6, 2, 300, 33, 17}, dtype, {.causal = true, .scale = 0.2}, 400);
    expect_as_reference({1, 300, 3, 1, 130, 8, 40}, dtype, {.causal = true, .scale = 0.2}, 400);
  }
}

TEST(AttentionKernels, OfSixteenBitsRoundOnlyWeightsAndResults) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    SCOPED_TRACE(dtype_name(dtype));
    expect_as_reference({1, 67, 2, 1, 131, 19, 21}, dtype, {.causal = true, .scale = 0.2},
                        dtype == DType::kBF16 ? 20 : 64);
  }
}

TEST(AttentionKernels, HideTheKeysBeforeAWindow) {
  const auto offset = [](std::int32_t by) {
    return [by](Builder& b, ops::AttentionOperands options) {
      options.offset = ops::constant(b, Literal::scalar(by));
      return options;
    };
  };
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
    SCOPED_TRACE(dtype_name(dtype));
    const double units = dtype == DType::kBF16 ? 20 : 400;
    for (const std::int64_t window : {1, 60, 64, 190}) {
      expect_as_reference({1, 300, 4, 2, 300, 16, 19}, dtype, {.causal = true, .window = window, .scale = 0.3}, units);
      expect_as_reference({1, 67, 1, 1, 333, 8, 8}, dtype, {.causal = true, .window = window, .scale = 0.3}, units,
                          offset(261));
    }
    expect_as_reference({1, 3, 2, 1, 333, 17, 8}, dtype, {.causal = true, .window = 40, .scale = 0.3}, units,
                        offset(200));
    expect_as_reference({2, 140, 6, 2, 200, 8, 8}, dtype, {.causal = true, .window = 75, .scale = 0.3, .dropout = 0.2},
                        units, [](Builder& b, ops::AttentionOperands options) {
                          options.key = ops::constant(b, Literal::from<std::uint32_t>({2}, {11, 12}));
                          const Type mask = Type::array(DType::kPred, {2, 1, 140, 200});
                          options.mask = ops::constant(b, testing::random_literal(mask, 3));
                          return options;
                        });
    // The last rows see only keys that do not exist.
    expect_as_reference({1, 300, 2, 2, 90, 8, 8}, dtype, {.causal = true, .window = 70, .scale = 0.3}, units);
  }
}

// bf16 has kernels for pairs of numbers and for tile registers.
TEST(AttentionKernels, OfBf16AgreeForAllInstructionSets) {
  const auto world = make_single_rank_world();
  const auto expect = [&](const Sizes& sizes, const ops::AttentionOperands& options, const Extend& extend = {}) {
    const Program program = attention_program(sizes, DType::kBF16, options, extend);
    const auto arguments = testing::random_arguments(program, 7);
    const Literal expected = evaluate(program, arguments);
    testing::on_all_isas([&] { EXPECT_TRUE(testing::close(run_program(program, *world, arguments), expected, 24)); });
  };
  expect({2, 128, 2, 2, 256, 64, 64}, {.scale = 0.125});
  expect({1, 200, 4, 2, 333, 32, 48}, {.causal = true, .scale = 0.2});
  expect({1, 5, 1, 1, 7, 1, 3}, {.scale = 0.5});
  expect({1, 300, 2, 1, 300, 32, 48}, {.causal = true, .window = 90, .scale = 0.2});
  expect({1, 130, 2, 1, 97, 80, 33}, {.causal = true, .scale = 0.1});
  expect({1, 70, 2, 2, 140, 34, 16}, {.scale = 0.2}, [](Builder& b, ops::AttentionOperands options) {
    options.mask = ops::constant(b, testing::random_literal(Type::array(DType::kPred, {1, 2, 70, 140}), 3));
    return options;
  });
}

TEST(AttentionKernels, HideKeysByMasks) {
  const auto with_mask = [](Type type) {
    return [type](Builder& b, ops::AttentionOperands options) {
      options.mask = ops::constant(b, testing::random_literal(type, 3));
      return options;
    };
  };
  const ops::AttentionOperands causal{.causal = true, .scale = 0.2};
  const Sizes sizes{2, 70, 4, 2, 140, 8, 8};
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    expect_as_reference(sizes, dtype, {.scale = 0.2}, 400, with_mask(Type::array(DType::kPred, {2, 1, 1, 140})));
    expect_as_reference(sizes, dtype, causal, 400, with_mask(Type::array(DType::kPred, {1, 4, 70, 140})));
    expect_as_reference(sizes, dtype, {.scale = 0.2}, 400, with_mask(Type::array(dtype, {2, 4, 70, 140})));
    expect_as_reference(sizes, dtype, causal, 400, with_mask(Type::array(dtype, {1, 1, 70, 1})));
    expect_as_reference(sizes, dtype, {.scale = -0.2}, 400);
  }
}

TEST(AttentionKernels, HideAllKeysOfARow) {
  const auto offset = [](Builder& b, ops::AttentionOperands options) {
    options.offset = ops::constant(b, Literal::scalar<std::int32_t>(-100));
    return options;
  };
  expect_as_reference({1, 170, 2, 2, 140, 8, 8}, DType::kF64, {.causal = true}, 400, offset);
}

TEST(AttentionKernels, DropTheSameWeightsAsTheReference) {
  const auto with_key = [](Builder& b, ops::AttentionOperands options) {
    options.key = ops::constant(b, Literal::from<std::uint32_t>({2}, {11, 12}));
    options.start = ops::constant(b, Literal::from<std::int32_t>({4}, {70000, 3, 5, 7}));  // beyond 2^32 scores
    options.dropout_dims = {8, 100, 500};
    return options;
  };
  for (const DType dtype : {DType::kF32, DType::kF64})
    expect_as_reference({2, 70, 2, 1, 140, 8, 8}, dtype, {.causal = true, .scale = 0.2, .dropout = 0.3}, 400, with_key);
}

TEST(AttentionKernels, ReadOperandsInPlaceFromATransposedSlice) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Type packed = Type::array(dtype, {2, 3, 4, 70, 8});  // q, k and v of [batch, heads, rows, depth]
    expect_on_each_isa(
        {packed},
        [](Builder& b, auto& v) {
          std::vector<Value> parts;
          for (int i = 0; i < 3; ++i)
            parts.push_back(
                ops::transpose(ops::reshape(ops::slice_dim(v[0], 1, i, i + 1), {2, 4, 70, 8}), {0, 2, 1, 3}));
          const Value out = ops::attention(parts[0], parts[1], parts[2], {.causal = true, .scale = 0.3});
          const Value sums = ops::get_tuple_element(out, 1);
          const Value back = ops::attention_backward(parts[0], parts[1], parts[2], ops::get_tuple_element(out, 0), sums,
                                                     sums, {.causal = true, .scale = 0.3});
          return ops::tuple(b, {out, back});
        },
        dtype == DType::kF32 ? 400 : 20);
  }
}

// A step of generation: a few rows, of which the offset gives the position in a cache.
TEST(AttentionKernels, OfAFewRowsReadTheUsedPartOfACache) {
  const auto cache = [](Builder& b, ops::AttentionOperands options) {
    options.offset = ops::constant(b, Literal::scalar<std::int32_t>(90));
    std::vector<bool> visible(2 * 150, true);
    for (int j = 0; j < 20; ++j) visible[static_cast<std::size_t>(j)] = false;  // padding of the first text
    Literal mask(Type::array(DType::kPred, {2, 1, 1, 150}));
    for (std::size_t j = 0; j < visible.size(); ++j) mask.mutable_data<bool>()[j] = visible[j];
    options.mask = ops::constant(b, mask);
    return options;
  };
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16})
    for (const std::int64_t rows : {1, 3, 40}) {
      SCOPED_TRACE(fmt::format("{} {} rows", dtype_name(dtype), rows));
      const double units = dtype == DType::kBF16 ? 20 : 400;
      expect_as_reference({2, rows, 6, 2, 150, 19, 35}, dtype, {.causal = true, .scale = 0.3}, units, cache);
    }
}

TEST(AttentionKernels, KeepNan) {
  const auto world = make_single_rank_world();
  const Type type = Type::array(DType::kF32, {1, 3, 1, 4});
  const Program program = testing::program_of({type, type, type}, [](Builder&, auto& v) {
    return ops::get_tuple_element(ops::attention(v[0], v[1], v[2], {.causal = true}), 0);
  });
  std::vector<Literal> arguments = testing::random_arguments(program, 5);
  arguments[1].mutable_data<float>()[5] = std::numeric_limits<float>::quiet_NaN();  // of key 1
  testing::on_each_isa([&] {
    const Literal out = run_program(program, *world, arguments);
    for (int i = 0; i < 12; ++i) EXPECT_EQ(std::isnan(out.data<float>()[static_cast<std::size_t>(i)]), i >= 4) << i;
  });
}

}  // namespace
}  // namespace tessera
