// SPDX-License-Identifier: Apache-2.0
// Custom-calls with Shardy's sharding rule are sharded by the factors of the rule.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/check/check.h"

namespace tessera {
namespace {

Program with_rule(const std::string& rule, const std::string& call, const std::string& x, const std::string& w) {
  const Program program = parse_program(
      "HloModule m, allow_spmd_sharding_propagation_to_output={true}\nENTRY main {\n"
      "x = f32[8,6] parameter(0) w = f32[4,6] parameter(1)\nROOT c = " +
          call + ", custom_call_target=\"mine\", frontend_attributes={xla.sdy.sharding_rule=\"#sdy.op_sharding_rule<" +
          rule + ">\"} }",
      op_table());
  const Mesh mesh = Mesh::parse("a=2,b=3");
  return annotate(annotate(program, mesh, "x", x), mesh, "w", w);
}

std::string collectives(const Program& program) {
  const CheckReport report = check_partition(program);
  EXPECT_TRUE(report.passed) << fmt::format("{}", fmt::join(report.failures, "\n"));
  std::string out;
  for (const auto& kind : program_stats(partition(program).program).collectives)
    out += fmt::format("{}x{} ", kind.opcode, kind.count);
  return out;
}

const std::string kProduct = "([i, k], [j, k])->([i, j]) {i=8, j=4, k=6} reduction={k}, custom";
const std::string kCall = "f32[8,4] custom-call(x, w)";

TEST(ShardingRule, PassThroughFactorsNeedNoCommunication) {
  EXPECT_EQ(collectives(with_rule(kProduct, kCall, "a,-", "-,-")), "");
  EXPECT_EQ(collectives(with_rule(kProduct, kCall, "b,-", "a,-")), "");  // uneven tiles of rows
}

TEST(ShardingRule, ReducedFactorsCauseASum) {
  EXPECT_EQ(collectives(with_rule(kProduct, kCall, "-,a", "-,a")), "all-reducex1 ");
}

TEST(ShardingRule, FactorsThatNeedReplicationAreGathered) {
  EXPECT_EQ(collectives(with_rule("([i, k], [j, k])->([i, j]) {i=8, j=4, k=6} reduction={k} need_replication={i}",
                                  kCall, "a,-", "-,-")),
            "all-gatherx1 ");
}

TEST(ShardingRule, SupportsDimsWithSeveralFactorsAndSeveralResults) {
  const std::string call = "(f32[4,2,6], f32[4,4]) custom-call(x, w)";
  // i occurs in both results; j would be summed over in one of them.
  EXPECT_EQ(collectives(with_rule("([ij, k], [l, k])->([i, j, k], [i, l]) {i=4, j=2, k=6, l=4}", call, "a,-", "-,-")),
            "");
  EXPECT_EQ(collectives(with_rule("([ij, k], [l, k])->([i, j, k], [i, l]) {i=4, j=2, k=6, l=4}", call, "a,b", "-,-")),
            "all-gatherx1 ");
}

TEST(ShardingRule, ThePerDeviceProgramCarriesItsSizes) {
  const std::string text = print_program(partition(with_rule(kProduct, kCall, "a,-", "-,-")).program);
  EXPECT_NE(text.find("([i, k], [j, k])->([i, j]) {i=4, k=6, j=4} reduction={k}, custom>"), std::string::npos) << text;
  EXPECT_EQ(print_program(parse_program(text, op_table())), text);
  const std::string for_xla = print_program(parse_program(text, op_table()), {.for_xla = true});
  EXPECT_EQ(for_xla.find("sharding_rule"), std::string::npos);
}

TEST(ShardingRule, AWrongRuleIsAnErrorThatQuotesIt) {
  for (const auto& [rule, reason] : std::vector<std::pair<std::string, std::string>>{
           {"([i, k])->([i, j]) {i=8, j=4, k=6}", "has 1 operands, but the custom-call has 2"},
           {"([i, k], [j, k])->([i, j]) {i=9, j=4, k=6}",
            "gives dim 0 of operand 0 the size 9, but the type is f32[8,6]"},
           {"([i], [j, k])->([i, j]) {i=8, j=4, k=6}", "operand 0 has 1 dims"},
           {"([i, k], [j, k])->([i, j]) {i=8, j=4, k=6} reductoin={k}", "unknown kind of factors \"reductoin\""}}) {
    try {
      with_rule(rule, kCall, "-,-", "-,-");
      ADD_FAILURE() << rule;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
  }
}

// As JAX writes batched matrix factorizations. XLA's operand_layout_constraints have the sizes of the operands.
TEST(BatchDims, ACallIsAppliedToTheItemsOfEachDevice) {
  const Program program = parse_program(
      "HloModule m, allow_spmd_sharding_propagation_to_output={true}\nENTRY main {\n"
      "x = f32[5,6,4,4] parameter(0) y = f32[5,6,4] parameter(1)\n"
      "c = (f32[5,6,4,4], s32[5,6]) custom-call(x, y), custom_call_target=\"mine\", "
      "operand_layout_constraints={f32[5,6,4,4]{3,2,1,0}, f32[5,6,4]{2,1,0}}, "
      "frontend_attributes={num_batch_dims=\"2\"}\n"
      "l = f32[5,6,4,4] get-tuple-element(c), index=0\n"
      "ROOT r = f32[5,6,4,4] negate(l) }",
      op_table());
  const Mesh mesh = Mesh::parse("a=2,b=3");
  const Program even = annotate(annotate(program, mesh, "x", "-,b,-,-"), mesh, "y", "-,b,-");
  EXPECT_EQ(collectives(even), "");
  EXPECT_NE(print_program(partition(even).program)
                .find("operand_layout_constraints={f32[5,2,4,4]{3,2,1,0}, f32[5,2,4]{2,1,0}}"),
            std::string::npos);
  EXPECT_EQ(collectives(annotate(annotate(program, mesh, "x", "a,b,-,-"), mesh, "y", "a,b,-")), "");  // uneven items
  EXPECT_EQ(collectives(annotate(program, mesh, "x", "-,b,a,-")).find("all-gather"), 0U);  // each item is on one device
}

}  // namespace
}  // namespace tessera
