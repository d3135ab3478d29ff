// SPDX-License-Identifier: Apache-2.0
// No pass treats the elided elements of a constant as known values.
#include <gtest/gtest.h>

#include "tessera/ir/text.h"
#include "tessera/ops/elided_constants.h"
#include "tessera/ops/op_table.h"
#include "tessera/passes/passes.h"

namespace tessera {
namespace {

Program program_of_body(const std::string& body) { return parse_program("ENTRY e { " + body + " }", op_table()); }

TEST(ElidedConstants, NoPassFoldsThem) {
  for (const char* body :
       {"x = f32[] parameter(0) c = f32[] constant({...}) ROOT y = f32[] add(x, c)",
        "x = f32[] parameter(0) c = f32[] constant({...}) ROOT y = f32[] multiply(x, c)",
        "a = f32[] constant({...}) b = f32[] constant({...}) ROOT y = f32[] subtract(a, b)",
        "a = f32[] constant({...}) f = f32[4] broadcast(a), dimensions={} ROOT y = f32[4] exponential(f)",
        "p = pred[] constant({...}) x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = f32[] select(p, x, y)",
        "i = s32[] constant({...}) x = f32[8] parameter(0) ROOT y = f32[2] dynamic-slice(x, i), "
        "dynamic_slice_sizes={2}"}) {
    const Program program = program_of_body(body);
    const Program after = merge_duplicates(simplify_loops(simplify_branches(simplify(program))));
    EXPECT_EQ(difference(program, after), "") << body;
  }
}

TEST(ElidedConstants, OnlyCopiesAreMerged) {
  const Program merged = merge_duplicates(program_of_body(R"(
  a = f32[3] constant({...})
  b = f32[3] constant({...})
  again = f32[3] constant({...}), frontend_attributes={tessera.elided="e/a"}
  ROOT t = (f32[3], f32[3], f32[3]) tuple(a, b, again))"));
  EXPECT_EQ(elided_constants(merged), (std::vector<std::string>{"%a of %e", "%b of %e"}));
}

}  // namespace
}  // namespace tessera
