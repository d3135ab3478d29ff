// SPDX-License-Identifier: Apache-2.0
// Strict mode: collectives that no annotation requires are errors.
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/pipeline/partition.h"

namespace tessera {
namespace {

// Two sums that share one all-reduce.
TEST(StrictMode, StrictModeCountsCollectivesNotTheirParts) {
  const Program program = parse_program(R"(HloModule m, num_partitions=2
ENTRY %main (x: f32[8,6], y: f32[8,6], z: f32[8,5]) -> (f32[6,6], f32[6,5]) {
  %x = f32[8,6] parameter(0), sharding={devices=[2,1]<=[2]}
  %y = f32[8,6] parameter(1), sharding={devices=[2,1]<=[2]}
  %z = f32[8,5] parameter(2), sharding={devices=[2,1]<=[2]}
  %a = f32[6,6] dot(%x, %y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  %b = f32[6,5] dot(%x, %z), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT %out = (f32[6,6], f32[6,5]) tuple(%a, %b)
})",
                                        op_table());
  const auto notes = partition(program).notes;
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_EQ(collective_count(notes), 1);
  try {
    (void)partition(program, {.limits = {.strict = true}});
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("no annotation requires 1 of 1 collectives"), std::string::npos) << text;
    EXPECT_NE(text.find(", part 2 of 2 over"), std::string::npos) << text;
  }
}

// A step of y = x w with w in an FSDP unit, as the front end traces it. `unshard` and `barrier` are the marks that FSDP
// adds.
Program wrapped_step(int batch, int width, const std::string& unshard, const std::string& barrier) {
  const std::string text = R"(HloModule m, num_partitions=2
%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}
ENTRY %main (x: f32[B,W], w: f32[W,W]) -> (f32[], f32[W,W]) {
  %x = f32[B,W] parameter(0), sharding={devices=[2,1]<=[2]}
  %w = f32[W,W] parameter(1), sharding={devices=[2,1]<=[2]}
  %gathered = f32[W,W] UNSHARD
  %y = f32[B,W] dot(%x, %gathered), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %t = f32[B,W] tanh(%y)
  %g = f32[W,W] dot(%x, %t), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  %turned = f32[W,W] negate(%g)
  %stored = f32[W,W] BARRIER
  %zero = f32[] constant(0)
  %loss = f32[] reduce(%t, %zero), dimensions={0,1}, to_apply=%sum
  %root = f32[] sqrt(%loss)
  %new = f32[W,W] subtract(%w, %stored)
  ROOT %out = (f32[], f32[W,W]) tuple(%root, %new), sharding={{replicated}, {devices=[2,1]<=[2]}}
})";
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = std::string_view(text).substr(i);
    if (rest.starts_with("UNSHARD")) {
      out += unshard;
      i += 6;
    } else if (rest.starts_with("BARRIER")) {
      out += barrier;
      i += 6;
    } else if (rest.starts_with("B,") || rest.starts_with("W,") || rest.starts_with("W]")) {
      out += std::to_string(text[i] == 'B' ? batch : width);
    } else {
      out += text[i];
    }
  }
  return parse_program(out, op_table());
}

TEST(StrictMode, StrictModeAcceptsTheCollectivesOfAWrappedModule) {
  const std::string unshard =
      R"(custom-call(%w), custom_call_target="Sharding", sharding={replicated}, frontend_attributes={tessera.unit="root",tessera.recompute="true"})";
  const auto barrier = [](const std::string& gradient) {
    return "custom-call(" + gradient +
           R"(), custom_call_target="Sharding", sharding={devices=[2,1]<=[2]}, )"
           R"(frontend_attributes={tessera.unit="root",tessera.barrier="true"})";
  };
  const auto opcodes = [&](int batch, int width, const std::string& gradient) {
    std::set<std::string> out;
    const auto parts = partition(wrapped_step(batch, width, unshard, barrier(gradient)), {.limits = {.strict = true}});
    for (const CollectiveNote& note : parts.notes) {
      EXPECT_TRUE(note.asked) << note.reason;
      out.insert(note.opcode);
    }
    return out;
  };
  EXPECT_EQ(opcodes(64, 8, "%turned"), (std::set<std::string>{"all-gather", "all-reduce", "reduce-scatter"}));
  // With few rows the gradient is computed in shards, from gathered operands.
  const auto moved = opcodes(2, 64, "%g");
  EXPECT_FALSE(moved.contains("reduce-scatter"));
  EXPECT_TRUE(moved.contains("all-gather"));
  // Collectives of values outside of FSDP units are not requested.
  EXPECT_THROW((void)partition(wrapped_step(64, 8, "negate(%w)", barrier("%g")), {.limits = {.strict = true}}), Error);
}

}  // namespace
}  // namespace tessera
