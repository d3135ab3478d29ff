// SPDX-License-Identifier: Apache-2.0
// A program as several programs that run one after the other.
#include "tessera/passes/stages.h"

#include <gtest/gtest.h>

#include "passes/expect_pass.h"
#include "tessera/ops/evaluate.h"

namespace tessera {
namespace {

using passes_tests::parsed;

constexpr std::string_view kStep = R"(
HloModule step, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY %main (w: f64[3], x: f64[3], rate: f64[]) -> (f64[3], f64[3], f64[3]) {
  %w = f64[3] parameter(0)
  %x = f64[3] parameter(1)
  %rate = f64[] parameter(2)
  %two = f64[] constant(2)
  %twos = f64[3] broadcast(%two), dimensions={}
  %y = f64[3] multiply(%w, %x), frontend_attributes={tessera.stage="forward"}
  %h = f64[3] tanh(%y), frontend_attributes={tessera.stage="forward"}
  %square = f64[3] multiply(%h, %h), frontend_attributes={tessera.stage="backward"}
  %d = f64[3] subtract(%twos, %square), frontend_attributes={tessera.stage="backward"}
  %late = f64[3] add(%d, %h), frontend_attributes={tessera.stage="forward"}
  %dw = f64[3] multiply(%d, %x), frontend_attributes={tessera.stage="backward"}
  %rates = f64[3] broadcast(%rate), dimensions={}
  %change = f64[3] multiply(%dw, %rates), frontend_attributes={tessera.stage="update"}
  %scaled = f64[3] multiply(%change, %twos), frontend_attributes={tessera.stage="update"}
  %new = f64[3] subtract(%w, %scaled), frontend_attributes={tessera.stage="update"}
  ROOT %r = (f64[3], f64[3], f64[3]) tuple(%new, %h, %late)
})";

std::vector<Literal> run_stages(const Stages& stages, const std::vector<Literal>& arguments) {
  std::vector<Literal> values(static_cast<std::size_t>(stages.value_count));
  std::copy(arguments.begin(), arguments.end(), values.begin());
  for (const Stage& stage : stages.stages) {
    std::vector<Literal> given;
    for (const int value : stage.arguments) given.push_back(values.at(static_cast<std::size_t>(value)));
    const Literal out = evaluate(stage.program, given);
    for (std::size_t k = 0; k < stage.results.size(); ++k)
      values.at(static_cast<std::size_t>(stage.results[k])) = out.elements()[k];
  }
  std::vector<Literal> results;
  for (const int value : stages.results) results.push_back(values.at(static_cast<std::size_t>(value)));
  return results;
}

TEST(Stages, ComputeTogetherWhatTheProgramComputes) {
  const Program program = parsed(kStep);
  const Stages stages = split_stages(program);
  ASSERT_EQ(stages.stages.size(), 3U);
  EXPECT_EQ(stages.stages[1].name, "backward");
  for (const Stage& stage : stages.stages) verify(stage.program);
  const std::vector<Literal> arguments{Literal::from<double>({3}, {1, -2, 0.5}),
                                       Literal::from<double>({3}, {0.25, 3, 7}), Literal::scalar(0.125)};
  const Literal expected = evaluate(program, arguments);
  const std::vector<Literal> results = run_stages(stages, arguments);
  ASSERT_EQ(results.size(), 3U);
  for (std::size_t k = 0; k < results.size(); ++k) EXPECT_EQ(results[k].str(), expected.elements()[k].str()) << k;
}

TEST(Stages, RunAnOpAfterItsOperandsAndWhereItIsFirstNeeded) {
  const Stages stages = split_stages(parsed(kStep));
  const auto has = [&](std::size_t stage, std::string_view name) {
    const auto& instructions = stages.stages.at(stage).program.entry_computation().instructions;
    return std::any_of(instructions.begin(), instructions.end(),
                       [&](const Instruction& i) { return i.name == name && i.op->role != Role::kParameter; });
  };
  EXPECT_TRUE(has(0, "h"));
  EXPECT_TRUE(has(1, "late")) << "it reads a value of the backward pass";
  EXPECT_TRUE(has(1, "twos")) << "first needed in the backward pass";
  EXPECT_TRUE(has(2, "rates")) << "only the update needs it";
}

TEST(Stages, GiveMemoryToAResultIfNoLaterStageReadsIt) {
  const Stages stages = split_stages(parsed(kStep));
  ASSERT_EQ(stages.stages.size(), 3U);
  EXPECT_TRUE(stages.stages[0].program.aliases.empty());
  ASSERT_EQ(stages.stages[2].program.aliases.size(), 1U);
  const Alias& alias = stages.stages[2].program.aliases[0];
  EXPECT_EQ(stages.stages[2].arguments.at(static_cast<std::size_t>(alias.parameter)), 0) << "the argument w";
}

TEST(Stages, AreNoneInAProgramThatNamesNoneOrOnlyOne) {
  EXPECT_TRUE(split_stages(parsed(R"(
HloModule m
ENTRY %main (x: f32[2]) -> f32[2] {
  %x = f32[2] parameter(0)
  ROOT %r = f32[2] add(%x, %x), frontend_attributes={tessera.stage="forward"}
})"))
                  .stages.empty());
}

TEST(Stages, HaveKnownNames) {
  EXPECT_THROW(split_stages(parsed(R"(
HloModule m
ENTRY %main (x: f32[2]) -> (f32[2]) {
  %x = f32[2] parameter(0)
  %y = f32[2] add(%x, %x), frontend_attributes={tessera.stage="backwards"}
  ROOT %r = (f32[2]) tuple(%y)
})")),
               Error);
}

}  // namespace
}  // namespace tessera
