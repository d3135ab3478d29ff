// SPDX-License-Identifier: Apache-2.0
// Sorts whose comparators compare functions of the elements become sorts of the values of these functions.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/ir/op_def.h"
#include "tessera/ir/text.h"
#include "tessera/lowering/lowering.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/rows.h"

namespace tessera {
namespace {

// Sorts f32[3,17] and s32[3,17] along dim 1.
Program sort_with(const std::string& comparator) {
  return parse_program(fmt::format(R"(
HloModule m
%less (a: f32[], b: f32[], i: s32[], j: s32[]) -> pred[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  %i = s32[] parameter(2)
  %j = s32[] parameter(3)
  {}
}}
ENTRY %main (x: f32[3,17], y: s32[3,17]) -> (f32[3,17], s32[3,17]) {{
  %x = f32[3,17] parameter(0)
  %y = s32[3,17] parameter(1)
  ROOT %s = (f32[3,17], s32[3,17]) sort(%x, %y), dimensions={{1}}, is_stable=true, to_apply=%less
}})",
                                   comparator),
                       op_table());
}

// With NaNs of both signs, zeros of both signs, infinities, and equal elements.
std::vector<Literal> arguments() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {2, -0.0F, nan, 1, -infinity, 0, -1, infinity, -nan, 2, -2, 0.5F};
  std::vector<float> x(3 * 17);
  std::vector<std::int32_t> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = values[(5 * i + i / 17) % values.size()];
    y[i] = static_cast<std::int32_t>((7 * i) % 5) - 2;
  }
  return {Literal::from<float>({3, 17}, x), Literal::from<std::int32_t>({3, 17}, y)};
}

// The number of sorts; -1 if the comparator of one is not plain.
int plain_sorts(const Program& program) {
  int out = 0;
  for (const ComputationRef& computation : program.computations)
    for (const Instruction& i : computation->instructions)
      if (i.op == &rows::kSort) {
        if (!sort_order(view_of(program, *computation, i))) return -1;
        ++out;
      }
  return out;
}

constexpr const char* kJaxKeys = R"(
  %zero = f32[] constant(0)
  %nan = f32[] constant(nan)
  %a_zero = pred[] compare(%a, %zero), direction=EQ
  %a1 = f32[] select(%a_zero, %zero, %a)
  %a_nan = pred[] compare(%a, %a), direction=NE
  %a2 = f32[] select(%a_nan, %nan, %a1)
  %b_zero = pred[] compare(%b, %zero), direction=EQ
  %b1 = f32[] select(%b_zero, %zero, %b)
  %b_nan = pred[] compare(%b, %b), direction=NE
  %b2 = f32[] select(%b_nan, %nan, %b1))";

void expect_sorts(const std::string& comparator, int sorts) {
  const Program program = sort_with(comparator);
  const Program made = sort_by_keys(program);
  verify(made, "after sort_by_keys");
  EXPECT_EQ(plain_sorts(made), sorts) << print_program(made);
  const Literal expected = evaluate(program, arguments());
  const Literal got = evaluate(made, arguments());
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(got.elements()[i] == expected.elements()[i]) << comparator;
}

TEST(SortByKeys, OneComputedKey) {
  expect_sorts(fmt::format("{} ROOT %r = pred[] compare(%a2, %b2), direction=LT, type=TOTALORDER", kJaxKeys), 1);
  expect_sorts(fmt::format("{} ROOT %r = pred[] compare(%b2, %a2), direction=LT, type=TOTALORDER", kJaxKeys), 1);
  expect_sorts("%m = s32[] negate(%i) %n = s32[] negate(%j) ROOT %r = pred[] compare(%m, %n), direction=GT", 1);
  expect_sorts(R"(%f = f32[] convert(%i) %g = f32[] convert(%j) %p = f32[] multiply(%a, %f) %q = f32[] multiply(%b, %g)
                  ROOT %r = pred[] compare(%p, %q), direction=GT, type=TOTALORDER)",
               1);
}

TEST(SortByKeys, SeveralKeys) {
  // Floats as in JAX, then integers.
  expect_sorts(fmt::format(R"({}
  %less_a = pred[] compare(%a2, %b2), direction=LT, type=TOTALORDER
  %same_a = pred[] compare(%a2, %b2), direction=EQ, type=TOTALORDER
  %less_i = pred[] compare(%i, %j), direction=LT
  %both = pred[] and(%same_a, %less_i)
  ROOT %r = pred[] or(%less_a, %both))",
                           kJaxKeys),
               2);
  // Integers in descending order, then floats.
  expect_sorts(R"(
  %more_i = pred[] compare(%i, %j), direction=GT
  %same_i = pred[] compare(%j, %i), direction=EQ
  %less_a = pred[] compare(%a, %b), direction=LT, type=TOTALORDER
  %both = pred[] and(%less_a, %same_i)
  ROOT %r = pred[] or(%both, %more_i))",
               2);
  expect_sorts(R"(
  %m = s32[] abs(%i) %n = s32[] abs(%j)
  %less_m = pred[] compare(%m, %n), direction=LT
  %same_m = pred[] compare(%m, %n), direction=EQ
  %less_i = pred[] compare(%i, %j), direction=LT
  %same_i = pred[] compare(%i, %j), direction=EQ
  %less_a = pred[] compare(%a, %b), direction=GT, type=TOTALORDER
  %rest = pred[] select(%same_i, %less_a, %less_i)
  ROOT %r = pred[] select(%same_m, %rest, %less_m))",
               3);
}

// No kernel sorts floats that are not ordered totally. The other comparators are not functions of one side each, or are
// not consistent.
TEST(SortByKeys, OtherComparatorsStay) {
  for (
      const char* comparator : {
          "%c = f32[] abs(%a) %d = f32[] abs(%b) ROOT %r = pred[] compare(%c, %d), direction=LT",
          "%c = s32[] negate(%i) %d = s32[] abs(%j) ROOT %r = pred[] compare(%c, %d), direction=LT",
          "%c = s32[] add(%i, %j) %d = s32[] add(%j, %j) ROOT %r = pred[] compare(%c, %d), direction=LT",
          "%c = s32[] negate(%i) %d = s32[] negate(%j) ROOT %r = pred[] compare(%c, %d), direction=LE",
          R"(%less_i = pred[] compare(%i, %j), direction=LT %same_a = pred[] compare(%a, %b), direction=EQ, type=TOTALORDER
              %less_a = pred[] compare(%a, %b), direction=LT, type=TOTALORDER %both = pred[] and(%same_a, %less_a)
              ROOT %r = pred[] or(%less_i, %both))",
          "%one = pred[] constant(true) ROOT %r = pred[] and(%one, %one)",
      }) {
    const Program program = sort_with(comparator);
    EXPECT_EQ(print_program(sort_by_keys(program)), print_program(program));
  }
  const std::string plain = "ROOT %r = pred[] compare(%i, %j), direction=LT";
  EXPECT_EQ(print_program(sort_by_keys(sort_with(plain))), print_program(sort_with(plain)));
}

}  // namespace
}  // namespace tessera
