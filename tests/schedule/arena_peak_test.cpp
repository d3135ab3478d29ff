// SPDX-License-Identifier: Apache-2.0
// The texts of the largest parts of the arena.
#include "tessera/schedule/arena_peak.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/schedule/schedule.h"

namespace tessera {
namespace {

// The result of the sort, which has this metadata, is in the arena.
bool has_part(const std::string& metadata, const std::string& text) {
  const Program program = parse_program(R"(HloModule m
%less { %a = f32[] parameter(0) %b = f32[] parameter(1) ROOT %l = pred[] compare(%a, %b), direction=LT }
%add { %a = f32[] parameter(0) %b = f32[] parameter(1) ROOT %s = f32[] add(%a, %b) }
ENTRY %main {
  %x = f32[6,5] parameter(0)
  %zero = f32[] constant(0)
  %s = f32[6,5] sort(%x), dimensions={1}, to_apply=%less)" +
                                            metadata +
                                            R"(
  ROOT %y = f32[] reduce(%s, %zero), dimensions={0,1}, to_apply=%add
})",
                                        op_table());
  const ArenaPeak peak = arena_peak(program, *make_schedule(program));
  return std::any_of(peak.largest.begin(), peak.largest.end(),
                     [&](const ArenaPeak::Part& part) { return part.what == text; });
}

TEST(ArenaPeak, NamesTheModuleAndTheSourceLineOfAValue) {
  EXPECT_TRUE(has_part("", "f32[6,5] %s (sort)"));
  EXPECT_TRUE(has_part(R"(, metadata={op_name="transformer.h.0.mlp"})", "f32[6,5] %s (sort, transformer.h.0.mlp)"));
  EXPECT_TRUE(has_part(R"(, metadata={op_name="transformer.h.0.mlp" source_file="gpt2.cpp" source_line=40})",
                       "f32[6,5] %s (sort, transformer.h.0.mlp, gpt2.cpp:40)"));
}

TEST(ArenaPeak, ShowsTheEndOfALongPath) {
  const std::string end = "layers_7/mlp/dot_general[dimension_numbers=(1,0)]";
  ASSERT_EQ(end.size(), 49U);
  EXPECT_TRUE(has_part(R"(, metadata={op_name="jit(step)/jit(main)/)" + end + R"("})",
                       "f32[6,5] %s (sort, .." + end.substr(1) + ")"));
}

}  // namespace
}  // namespace tessera
