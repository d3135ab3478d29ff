// SPDX-License-Identifier: Apache-2.0
// The operands and results of simplified conditionals, and that they compute the same values.
#include <gtest/gtest.h>

#include "tessera/ir/text.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/check/check.h"
#include "tessera/passes/passes.h"

namespace tessera {
namespace {

constexpr std::string_view kBranches = R"(
HloModule m
%first (t: (f32[3], f32[3], f32[3])) -> (f32[3], f32[3]) {{
  %t = (f32[3], f32[3], f32[3]) parameter(0)
  %a = f32[3] get-tuple-element(%t), index=0
  %b = f32[3] get-tuple-element(%t), index=1
  %c = f32[3] get-tuple-element(%t), index=2
  %ab = f32[3] multiply(%a, %b)
  %cc = f32[3] add(%c, %c)
  ROOT %r = (f32[3], f32[3]) tuple(%ab, %cc)
}}
%second (x: f32[3]) -> (f32[3], f32[3]) {{
  %x = f32[3] parameter(0)
  %n = f32[3] negate(%x)
  %s = f32[3] sine(%x)
  ROOT %r = (f32[3], f32[3]) tuple(%n, %s)
}}
ENTRY %main (p: pred[], x: f32[3], y: f32[3], z: f32[3]) -> {} {{
  %p = pred[] parameter(0)
  %x = f32[3] parameter(1)
  %y = f32[3] parameter(2)
  %z = f32[3] parameter(3)
  %given = (f32[3], f32[3], f32[3]) tuple(%x, %y, %z)
  %chosen = (f32[3], f32[3]) conditional(%p, %given, %y), true_computation=%first, false_computation=%second
  {}
}})";

// Returns the operand and result types of the conditional. Checks that both branches give the same values as before.
std::string conditional_of(const Program& before) {
  const Program after = simplify_branches(before);
  verify(after);
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    auto arguments = seeded_arguments(before, seed);
    EXPECT_EQ(evaluate(before, arguments), evaluate(after, arguments)) << print_program(after);
  }
  std::string out;
  const Computation& entry = after.entry_computation();
  for (const Instruction& instruction : entry.instructions) {
    if (instruction.op->role != Role::kConditional) continue;
    for (const Id operand : instruction.operands) out += entry[operand].type.str() + " ";
    out += "-> " + instruction.type.str();
  }
  return out;
}

std::string of(std::string_view type, std::string_view rest) {
  return conditional_of(parse_program(fmt::format(fmt::runtime(kBranches), type, rest), op_table()));
}

TEST(SimplifyBranches, RemoveUnreadOperandsAndResults) {
  EXPECT_EQ(of("f32[3]", "ROOT %r = f32[3] get-tuple-element(%chosen), index=0"),
            "pred[] (f32[3], f32[3]) f32[3] -> (f32[3])");
  EXPECT_EQ(of("f32[3]", "ROOT %r = f32[3] get-tuple-element(%chosen), index=1"), "pred[] (f32[3]) f32[3] -> (f32[3])");
}

TEST(SimplifyBranches, KeepAllResultsIfTheCompleteTupleIsUsed) {
  EXPECT_EQ(of("(f32[3], f32[3])", "ROOT %r = (f32[3], f32[3]) opt-barrier(%chosen)"),
            "pred[] (f32[3], f32[3], f32[3]) f32[3] -> (f32[3], f32[3])");
}

}  // namespace
}  // namespace tessera
