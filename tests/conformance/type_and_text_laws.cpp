// SPDX-License-Identifier: Apache-2.0
// Laws 1 and 2: the inferred type is the type of the value; printing and parsing gives an equal program. In addition,
// every row has a sample.
#include <gtest/gtest.h>

#include <set>

#include "conformance/op_samples.h"
#include "tessera/ir/text.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/op_table.h"
#include "tessera/passes/passes.h"

namespace tessera::conformance {
namespace {

TEST(OpTable, EveryRowHasASample) {
  std::set<std::string_view> sampled;
  for (const auto& sample : op_samples()) sampled.insert(sample.op);
  for (const OpDef* row : op_table().rows()) EXPECT_TRUE(sampled.contains(row->name)) << row->name;
}

TEST(OpTable, EveryRowInfersItsTypeAndCanBeEvaluated) {
  for (const OpDef* row : op_table().rows()) {
    EXPECT_NE(row->infer, nullptr) << row->name;
    const Role role = row->role;
    const bool is_run_by_evaluator =
        role == Role::kParameter || role == Role::kCall || role == Role::kWhile || role == Role::kConditional;
    const bool is_evaluated = row->evaluate != nullptr || row->evaluate_collective != nullptr || is_run_by_evaluator;
    EXPECT_TRUE(is_evaluated) << row->name;
    const bool needs_gradient = row->gradient_kind == GradientKind::kFunction && row->role == Role::kPlain;
    EXPECT_TRUE(!needs_gradient || row->gradient != nullptr) << row->name;
    EXPECT_TRUE(row->gradient_kind != GradientKind::kForm || row->hlo_form != nullptr) << row->name;
  }
}

TEST(OpLaws, TheInferredTypeIsTheTypeOfTheValue) {
  for (const auto& sample : op_samples()) {
    const auto [program, subject] = program_of(sample);
    const Computation& main = program.entry_computation();
    const OpView view = view_of(program, main, main[subject]);
    EXPECT_EQ(view.op.infer(view).str(), main[subject].type.str()) << name_of(sample);
    const std::vector<std::vector<Literal>> arguments(static_cast<std::size_t>(sample.num_partitions),
                                                      random_arguments(sample, 1));
    EvaluateOptions options;
    options.observe = [&, &types = main](std::int64_t, const Computation& computation, Id id, const Literal& value) {
      if (&computation != &types) return;
      EXPECT_EQ(value.type().str(), computation[id].type.str()) << name_of(sample);
    };
    const auto results = evaluate_lockstep(program, arguments, options);
    EXPECT_EQ(results.front().type().str(), main.root_type().str()) << name_of(sample);
  }
}

TEST(OpLaws, ATextReadsBackEqual) {
  for (const auto& sample : op_samples()) {
    const Program program = program_of(sample).program;
    const std::string text = print_program(program);
    try {
      const Program again = parse_program(text, op_table());
      EXPECT_EQ(difference(program, again), "") << name_of(sample) << "\n" << text;
      EXPECT_EQ(print_program(again), text) << name_of(sample);
      EXPECT_EQ(again.hash(), program.hash()) << name_of(sample);
    } catch (const Error& error) {
      ADD_FAILURE() << name_of(sample) << ": " << error.what() << "\n" << text;
    }
  }
}

// Returns the warning or the error of a reader for a text in which an attribute name is misspelled.
std::string said_of(const std::string& text) {
  testing::internal::CaptureStderr();
  std::string error;
  try {
    (void)parse_program(text, op_table());
  } catch (const Error& e) {
    error = e.what();
  }
  return testing::internal::GetCapturedStderr() + error;
}

// Example: `dimension={0}` for `dimensions={0}`. The attribute is kept, because a text may contain unknown attributes,
// but there is a warning.
TEST(OpLaws, AMisspelledAttributeCausesAWarningWithTheRightName) {
  int misspelt = 0;
  for (const auto& sample : op_samples()) {
    const auto [program, subject] = program_of(sample);
    const Computation& main = program.entry_computation();
    if (main[subject].attributes == nullptr) continue;
    const std::string line = print_instruction(program, main, subject);
    const std::string text = print_program(program);
    for (const auto& attribute : main[subject].attributes->texts()) {
      const std::string wrong = attribute.name.substr(0, attribute.name.size() - 1);
      const auto in_line = line.find(", " + attribute.name + "=");
      const auto place = text.find(line);
      if (in_line == std::string::npos || place == std::string::npos) continue;
      std::string changed = text;
      changed.replace(place + in_line + 2, attribute.name.size(), wrong);
      const std::string said = said_of(changed);
      EXPECT_NE(said.find(" " + wrong), std::string::npos) << name_of(sample) << ": " << line << "\n" << said;
      EXPECT_NE(said.find(attribute.name), std::string::npos) << name_of(sample) << ": " << line << "\n" << said;
      ++misspelt;
    }
  }
  EXPECT_GT(misspelt, 100);
}

TEST(OpLaws, FactorsGiveEveryDimOfEveryLeafItsSize) {
  for (const auto& sample : op_samples()) {
    const auto [program, subject] = program_of(sample);
    const OpView view = view_of(program, program.entry_computation(), program.entry_computation()[subject]);
    if (view.op.factors == nullptr) continue;
    const FactorMap map = view.op.factors(view);
    std::vector<Type> operands;
    for (const Type& operand : view.operands)
      for (const Type& leaf : operand.leaves()) operands.push_back(leaf);
    const auto check = [&](const std::vector<Type>& leaves, const std::vector<TensorFactors>& tensors) {
      ASSERT_EQ(leaves.size(), tensors.size()) << name_of(sample) << " " << map.str();
      for (std::size_t i = 0; i < leaves.size(); ++i) {
        if (!leaves[i].is_array()) continue;
        ASSERT_EQ(leaves[i].dims().size(), tensors[i].size()) << name_of(sample) << " " << map.str();
        for (std::size_t d = 0; d < tensors[i].size(); ++d) {
          std::int64_t size = 1;
          bool moves = false;
          for (const int f : tensors[i][d]) {
            size *= at(map.factors, f).size;
            moves |= at(map.factors, f).kind == FactorKind::kPermute;
          }
          EXPECT_TRUE(moves || size == leaves[i].dims()[d]) << name_of(sample) << " " << map.str();
        }
      }
    };
    check(operands, map.operands);
    check(view.result.leaves(), map.results);
  }
}

// Evaluates the expansion in place of the op.
TEST(OpLaws, AnExpansionHasTheValueOfItsOp) {
  int seen = 0;
  for (const auto& sample : op_samples()) {
    const auto [program, subject] = program_of(sample);
    if (program.entry_computation()[subject].op->expand == nullptr) continue;
    ++seen;
    const Program spelled_out = expand_ops(program);
    verify(spelled_out);
    const auto arguments = random_arguments(sample, 1);
    const auto wanted = evaluate(program, arguments).elements();
    const auto given = evaluate(spelled_out, arguments).elements();
    for (std::size_t leaf = 0; leaf < wanted.size(); ++leaf)
      for (std::int64_t i = 0; i < wanted[leaf].type().element_count(); ++i)
        EXPECT_NEAR(element_as_double(given[leaf], i), element_as_double(wanted[leaf], i), 1e-5) << name_of(sample);
  }
  EXPECT_EQ(seen, 2);
}

}  // namespace
}  // namespace tessera::conformance
