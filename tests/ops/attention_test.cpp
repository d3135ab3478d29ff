// SPDX-License-Identifier: Apache-2.0
// attention and attention-backward: results computed by hand, and the same by ops of HLO.
#include "tessera/ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "conformance/op_samples.h"
#include "ops/run_text.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"
#include "tessera/passes/passes.h"

namespace tessera {
namespace {

using conformance::f64;

std::vector<double> doubles(const Literal& x) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < x.type().element_count(); ++i) out.push_back(element_as_double(x, i));
  return out;
}

// One head, depth 1: scores are products of numbers.
struct Small {
  std::vector<double> q, k, v;
  ops::AttentionOperands options{};
  std::optional<Literal> mask{};
  std::optional<std::int32_t> offset{};

  [[nodiscard]] std::vector<std::vector<double>> run() const {
    ProgramBuilder program("small");
    Builder main = program.computation("main");
    const auto column = [&](const std::vector<double>& x) {
      return ops::constant(main, Literal::from<double>({1, isize(x), 1, 1}, x));
    };
    ops::AttentionOperands given = options;
    if (mask) given.mask = ops::constant(main, *mask);
    if (offset) given.offset = ops::constant(main, Literal::scalar(*offset));
    const Value root = ops::attention(column(q), column(k), column(v), given);
    const ComputationId entry = program.add(std::move(main), root);
    std::vector<std::vector<double>> out;
    for (const Literal& leaf : evaluate(program.finish(entry), {}).leaves()) out.push_back(doubles(leaf));
    return out;
  }
};

TEST(Attention, IsTheSoftmaxOfScaledProductsTimesTheValues) {
  const double e = std::exp(0.5 * 2.0);  // the scores are 0 and 2, the scale 0.5
  const auto out = Small{.q = {2}, .k = {0, 1}, .v = {3, 7}, .options = {.scale = 0.5}}.run();
  EXPECT_NEAR(out[0][0], (3 + 7 * e) / (1 + e), 1e-12);
  EXPECT_NEAR(out[1][0], std::log(1 + e), 1e-12);
}

void expect_near(const std::vector<double>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12) << "element " << i;
}

TEST(Attention, ARowSeesTheKeysUpToItsOwnPositionPlusTheOffset) {
  Small small{.q = {0, 0}, .k = {0, 0, 0, 0}, .v = {1, 2, 4, 8}, .options = {.causal = true}};
  expect_near(small.run()[0], {1, 1.5});
  small.offset = 2;
  expect_near(small.run()[0], {7.0 / 3, 3.75});
  small.offset = 9;
  expect_near(small.run()[0], {3.75, 3.75});
  small.offset = -1;
  expect_near(small.run()[0], {0, 1});
}

TEST(Attention, AWindowHidesTheKeysBeforeIt) {
  Small small{.q = {0, 0, 0}, .k = {0, 0, 0, 0}, .v = {1, 2, 4, 8}, .options = {.causal = true, .window = 2}};
  expect_near(small.run()[0], {1, 1.5, 3});
  small.offset = 1;
  expect_near(small.run()[0], {1.5, 3, 6});
  small.offset = 3;
  expect_near(small.run()[0], {6, 8, 0});  // the last row sees keys that do not exist
  small.options.window = 9;
  expect_near(small.run()[0], {3.75, 3.75, 3.75});
}

TEST(Attention, ARowWithoutVisibleKeysIsZeroAndItsLogSumIsMinusInfinity) {
  Small small{.q = {1, 1}, .k = {1, 2}, .v = {5, 6}};
  small.mask = Literal::from<bool>({1, 1, 2, 2}, {false, false, false, true});
  const auto out = small.run();
  EXPECT_EQ(out[0], (std::vector<double>{0, 6}));
  EXPECT_EQ(out[1], (std::vector<double>{-INFINITY, 2}));
}

TEST(Attention, HeadsOfAGroupReadTheSameKeys) {
  ProgramBuilder program("groups");
  Builder main = program.computation("main");
  const Value q = ops::constant(main, Literal::from<double>({1, 1, 4, 1}, {0, 0, 0, 0}));
  const Value k = ops::constant(main, Literal::from<double>({1, 1, 2, 1}, {1, 1}));
  const Value v = ops::constant(main, Literal::from<double>({1, 1, 2, 1}, {3, 5}));
  const Value root = ops::get_tuple_element(ops::attention(q, k, v, {}), 0);
  const ComputationId entry = program.add(std::move(main), root);
  EXPECT_EQ(doubles(evaluate(program.finish(entry), {})), (std::vector<double>{3, 3, 5, 5}));
}

TEST(Attention, AMessageNamesWhatDoesNotFit) {
  const std::string q = "f32[1,2,3,4] {{{{1,2,3,4},{1,2,3,4},{1,2,3,4}},{{1,2,3,4},{1,2,3,4},{1,2,3,4}}}}";
  const std::string k = "f32[1,1,2,4] {{{{1,2,3,4},{1,2,3,4}}}}";
  EXPECT_NE(error_of("(f32[1,2,3,4], f32[1,2,3]) attention(%a, %b, %b)", {q, k})
                .find("the heads of q must be a multiple of those of k: q f32[1,2,3,4], k f32[1,1,2,4]"),
            std::string::npos);
  EXPECT_NE(error_of("(f32[1,2,3,4], f32[1,2,3]) attention(%a, %a, %a), dropout=0.5", {q})
                .find("these attributes need 4 operands, got 3"),
            std::string::npos);
  EXPECT_NE(
      error_of("(f32[1,2,3,4], f32[1,2,3]) attention(%a, %a, %a), window=5", {q})
          .find("window must be from 1 to 1073741824, and is for causal attention, got window 5 of other attention"),
      std::string::npos);
}

// The values of the dropout of the complete scores.
TEST(Attention, DropoutDrawsTheNumbersOfTheCompleteScores) {
  constexpr double kP = 0.4;
  const Dims scores{2, 3, 5, 7};
  ProgramBuilder program("dropout");
  Builder main = program.computation("main");
  const Value key = ops::constant(main, Literal::from<std::uint32_t>({2}, {7, 9}));
  const Value q = ops::full(main, f64(2, 5, 3, 1), 0);
  const Value k = ops::full(main, f64(2, 7, 3, 1), 0);
  // The values are unit vectors: the output holds the weights.
  Literal units(f64(2, 7, 3, 7));
  for (std::int64_t i = 0; i < 2 * 7 * 3; ++i) at(units.mutable_data<double>(), i * 7 + i / 3 % 7) = 1;
  const Value out =
      ops::get_tuple_element(ops::attention(q, k, ops::constant(main, units), {.dropout = kP, .key = key}), 0);
  const Value weights = ops::transpose(out, {0, 2, 1, 3});
  const Value uniform = ops::random_uniform(key, scores, DType::kF32);
  const Value keep = ops::compare(uniform, ops::full(main, uniform.type(), kP), CompareDirection::kGe);
  const Value expected =
      ops::select(keep, ops::full(main, weights.type(), 1.0 / 7 / (1 - kP)), ops::full(main, weights.type(), 0));
  const Value root = ops::tuple(main, {weights, expected});
  const ComputationId entry = program.add(std::move(main), root);
  const auto got = evaluate(program.finish(entry), {}).leaves();
  const auto weight = doubles(got[0]);
  const auto want = doubles(got[1]);
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(weight[i], want[i], 1e-12) << i;
}

TEST(Attention, OpsOfHloGiveTheSameValues) {
  int count = 0;
  for (const auto& sample : conformance::op_samples()) {
    if (sample.op != "attention" && sample.op != "attention-backward") continue;
    SCOPED_TRACE(conformance::name_of(sample));
    ++count;
    const Program program = conformance::program_of(sample).program;
    const Program plain = in_ops_of_hlo(program);
    for (const auto& instruction : plain.entry_computation().instructions)
      EXPECT_EQ(instruction.op->hlo_form, nullptr) << instruction.name;
    const auto arguments = conformance::random_arguments(sample, 5);
    const auto expected = evaluate(program, arguments).leaves();
    const auto got = evaluate(plain, arguments).leaves();
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t leaf = 0; leaf < got.size(); ++leaf) {
      ASSERT_EQ(got[leaf].type(), expected[leaf].type());
      const DType dtype = sample.operands[0].type.dtype();
      const double bound = dtype == DType::kF64 ? 1e-12 : dtype == DType::kF32 ? 1e-5 : 5e-2;
      for (std::int64_t i = 0; i < got[leaf].type().element_count(); ++i)
        ASSERT_NEAR(element_as_double(got[leaf], i), element_as_double(expected[leaf], i), bound) << leaf << " " << i;
    }
  }
  EXPECT_GE(count, 20);
}

}  // namespace
}  // namespace tessera
