// SPDX-License-Identifier: Apache-2.0
#include "tessera/ops/contraction.h"

#include <gtest/gtest.h>

#include <limits>

#include "ops/run_text.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

// A computation add(a, b) of scalars, for the given element type and op.
std::string computation(const std::string& dtype, const std::string& op) {
  return fmt::format("%f {{\n  %x = {0}[] parameter(0)\n  %y = {0}[] parameter(1)\n  ROOT %z = {0}[] {1}(%y, %x)\n}}",
                     dtype, op);
}

TEST(Dot, ContractsAnyDimsInAnyOrder) {
  EXPECT_EQ(run("s32[2,2] dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
                {"s32[2,3] {{1, 2, 3}, {4, 5, 6}}", "s32[3,2] {{1, 0}, {0, 1}, {1, 1}}"}),
            "{{4, 5}, {10, 11}}");
  EXPECT_EQ(run("s32[] dot(%a, %b), lhs_contracting_dims={0,1}, rhs_contracting_dims={1,0}",
                {"s32[2,3] {{1, 2, 3}, {4, 5, 6}}", "s32[3,2] {{1, 4}, {2, 5}, {3, 6}}"}),
            "91");
  EXPECT_EQ(run("s32[2,3] dot(%a, %b)", {"s32[2] {1, 2}", "s32[3] {3, 4, 5}"}), "{{3, 4, 5}, {6, 8, 10}}");
}

TEST(Dot, BatchDimsComeFirst) {
  EXPECT_EQ(run("s32[2,1,1] dot(%a, %b), lhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_batch_dims={0}, "
                "rhs_contracting_dims={1}",
                {"s32[1,2,2] {{{1, 2}, {3, 4}}}", "s32[2,2,1] {{{1}, {1}}, {{10}, {1}}}"}),
            "{{{3}}, {{34}}}");
}

TEST(Dot, AccumulatesInAWiderTypeAndRoundsOnce) {
  // In bf16 steps, 256 + 1 + 1 stays 256; summed in a wider type it is 258.
  EXPECT_EQ(run("bf16[] dot(%a, %b), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
                {"bf16[3] {256, 1, 1}", "bf16[3] {1, 1, 1}"}),
            "258");
  EXPECT_EQ(run("f32[] dot(%a, %b), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
                {"bf16[2] {256, 1}", "bf16[2] {1, 1}"}),
            "257");
}

TEST(Dot, OfPredIsOrOfAnds) {
  EXPECT_EQ(run("pred[2] dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
                {"pred[2,2] {{true, true}, {true, false}}", "pred[2] {false, true}"}),
            "{true, false}");
}

TEST(Dot, TheResultTypeDeterminesTheTypeOfTheSum) {
  EXPECT_EQ(
      run("f32[] dot(%a, %b), lhs_contracting_dims={0}, rhs_contracting_dims={0}", {"s8[2] {-3, 1}", "s8[2] {2, 1}"}),
      "-5");
  EXPECT_EQ(run("s32[] dot(%a, %b), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
                {"pred[3] {true, true, false}", "pred[3] {true, true, true}"}),
            "2");
}

TEST(Reduce, FoldsFromTheInit) {
  const std::string matrix = "s32[2,3] {{1, 5, 3}, {4, 2, 6}}";
  EXPECT_EQ(run("s32[2] reduce(%a, %b), dimensions={1}, to_apply=%f", {matrix, "s32[] 100"}, computation("s32", "add")),
            "{109, 112}");
  EXPECT_EQ(
      run("s32[3] reduce(%a, %b), dimensions={0}, to_apply=%f", {matrix, "s32[] 3"}, computation("s32", "maximum")),
      "{4, 5, 6}");
  EXPECT_EQ(
      run("s32[] reduce(%a, %b), dimensions={0,1}, to_apply=%f", {matrix, "s32[] 1"}, computation("s32", "multiply")),
      "720");
  EXPECT_EQ(run("s32[2] reduce(%a, %b), dimensions={1}, to_apply=%f", {"s32[2,0] {{}, {}}", "s32[] 7"},
                computation("s32", "add")),
            "{7, 7}");
}

TEST(Reduce, RunsComputationsThatAreNotAKnownReduction) {
  // f(acc, x) = x - acc: 0 -> 1 -> 4 -> -1.
  EXPECT_EQ(run("s32[1] reduce(%a, %b), dimensions={1}, to_apply=%f", {"s32[1,3] {{1, 5, 3}}", "s32[] 0"},
                computation("s32", "subtract")),
            "{-1}");
}

TEST(Reduce, MinAndMaxOfNanAreNan) {
  EXPECT_EQ(run("f32[] reduce(%a, %b), dimensions={0}, to_apply=%f", {"f32[3] {1, nan, 3}", "f32[] -inf"},
                computation("f32", "maximum")),
            "nan");
}

TEST(Reduce, SeveralOperandsGiveATuple) {
  const std::string argmax = R"(%f {
  %x = f32[] parameter(0)
  %i = s32[] parameter(1)
  %y = f32[] parameter(2)
  %j = s32[] parameter(3)
  %g = pred[] compare(%y, %x), direction=GT
  %v = f32[] select(%g, %y, %x)
  %k = s32[] select(%g, %j, %i)
  ROOT %t = (f32[], s32[]) tuple(%v, %k)
})";
  EXPECT_EQ(
      run("(f32[2], s32[2]) reduce(%a, %b, %c, %d), dimensions={1}, to_apply=%f",
          {"f32[2,3] {{1, 5, 5}, {7, 2, 3}}", "s32[2,3] {{0, 1, 2}, {0, 1, 2}}", "f32[] -inf", "s32[] -1"}, argmax),
      "({5, 7}, {1, 0})");
}

TEST(ReductionOf, RecognizesAnOpOnTheTwoParameters) {
  const auto recognised = [](const std::string& dtype, const std::string& op) {
    const Program program = parse_program(
        "HloModule m\n" + computation(dtype, op) + "\nENTRY %main {\n  ROOT %x = f32[] parameter(0)\n}\n", op_table());
    return reduction_of(*program.computations[0]);
  };
  EXPECT_EQ(recognised("f32", "add"), Reduction::kSum);
  EXPECT_EQ(recognised("bf16", "multiply"), Reduction::kProduct);
  EXPECT_EQ(recognised("s32", "minimum"), Reduction::kMin);
  EXPECT_EQ(recognised("f64", "maximum"), Reduction::kMax);
  EXPECT_EQ(recognised("u32", "and"), Reduction::kAnd);
  EXPECT_EQ(recognised("pred", "or"), Reduction::kOr);
  EXPECT_EQ(recognised("pred", "add"), Reduction::kOr);
  EXPECT_EQ(recognised("f32", "subtract"), std::nullopt);
}

TEST(ReductionOf, LooksThroughFloatConversionsButNotAtOneParameterTwice) {
  ProgramBuilder program("m");
  Builder wide = program.computation("wide");
  const Value a = ops::parameter(wide, 0, Type::scalar(DType::kBF16));
  const Value b = ops::parameter(wide, 1, Type::scalar(DType::kBF16));
  const Value sum = ops::convert(ops::add(ops::convert(a, DType::kF32), ops::convert(b, DType::kF32)), DType::kBF16);
  const ComputationId through = program.add(std::move(wide), sum);
  Builder doubled = program.computation("doubled");
  const Value x = ops::parameter(doubled, 0, Type::scalar(DType::kF32));
  ops::parameter(doubled, 1, Type::scalar(DType::kF32));
  const Value twice = ops::add(x, x);
  const ComputationId same = program.add(std::move(doubled), twice);
  EXPECT_EQ(reduction_of(*program.program().computations[static_cast<std::size_t>(through)]), Reduction::kSum);
  EXPECT_EQ(reduction_of(*program.program().computations[static_cast<std::size_t>(same)]), std::nullopt);
}

TEST(ReductionIdentity, IsNeutral) {
  EXPECT_EQ(reduction_identity(Reduction::kMax, DType::kF32).str(), "-inf");
  EXPECT_EQ(reduction_identity(Reduction::kMin, DType::kBF16).str(), "inf");
  EXPECT_EQ(reduction_identity(Reduction::kMax, DType::kS8).str(), "-128");
  EXPECT_EQ(reduction_identity(Reduction::kMin, DType::kU16).str(), "65535");
  EXPECT_EQ(reduction_identity(Reduction::kAnd, DType::kS32).str(), "-1");
  EXPECT_EQ(reduction_identity(Reduction::kAnd, DType::kPred).str(), "true");
  EXPECT_EQ(reduction_identity(Reduction::kMax, DType::kPred).str(), "false");
  EXPECT_EQ(reduction_identity(Reduction::kProduct, DType::kF64).str(), "1");
  const auto narrow = [](Reduction reduction, DType dtype) {
    return element_as_double(reduction_identity(reduction, dtype), 0);
  };
  EXPECT_EQ(narrow(Reduction::kMax, DType::kS4), -8);
  EXPECT_EQ(narrow(Reduction::kMin, DType::kU4), 15);
  EXPECT_EQ(narrow(Reduction::kAnd, DType::kU4), 15);
  EXPECT_EQ(narrow(Reduction::kProduct, DType::kF8E4M3FN), 1);
  EXPECT_EQ(narrow(Reduction::kMax, DType::kF8E4M3FN), -448);  // has no infinity
  EXPECT_EQ(narrow(Reduction::kMin, DType::kF8E5M2), std::numeric_limits<double>::infinity());
  EXPECT_THROW(narrow(Reduction::kSum, DType::kF8E8M0FNU), Error);  // has no zero
}

TEST(ReductionComputation, IsSharedWithinAProgram) {
  ProgramBuilder program("m");
  const auto first = ops::reduction_computation(program, Reduction::kSum, DType::kF32);
  EXPECT_EQ(ops::reduction_computation(program, Reduction::kSum, DType::kF32), first);
  EXPECT_NE(ops::reduction_computation(program, Reduction::kMax, DType::kF32), first);
  EXPECT_NE(ops::reduction_computation(program, Reduction::kSum, DType::kF64), first);
}

}  // namespace
}  // namespace tessera
