// SPDX-License-Identifier: Apache-2.0
// Law 5: each wrong operand gives an error that names op, shapes and source line, or in text the line and column.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "conformance/op_samples.h"
#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/structural.h"

namespace tessera::conformance {
namespace {

struct Wrong {
  std::string what;
  Type type;
};

std::vector<Wrong> wrong_types(const Type& right) {
  if (right.is_tuple()) {
    std::vector<Type> fewer(right.elements().begin(), right.elements().end() - (right.elements().empty() ? 0 : 1));
    return {{"an array", f32(3)}, {"a token", Type::token()}, {"an element fewer", Type::tuple(std::move(fewer))}};
  }
  std::vector<Wrong> out{{"a tuple", Type::tuple({right, right})}};
  if (!right.is_array()) return out;
  out.push_back({"a token", Type::token()});
  Dims longer = right.dims();
  longer.push_back(13);
  out.push_back({"a dim more", Type::array(right.dtype(), longer)});
  const auto other = [](DType dtype) { return dtype == DType::kPred ? DType::kF32 : DType::kPred; };
  out.push_back({"another dtype", right.with_dtype(other(right.dtype()))});
  if (right.ndim() > 0) {
    Dims larger = right.dims();
    larger.back() += 11;
    out.push_back({"another size", Type::array(right.dtype(), larger)});
  }
  return out;
}

// Returns a program with parameters %w0, %w1, … and the sample's instruction on them. Throws the builder's error for
// wrong types.
Program program_on(const Program& program, const Instruction& subject, const std::vector<Type>& types) {
  ProgramBuilder copy(program);
  Builder main = copy.computation("wrong");
  std::vector<Value> operands;
  for (int i = 0; i < isize(types); ++i)
    operands.push_back(ops::parameter(main, i, at(types, i), fmt::format("w{}", i)));
  auto notes = std::make_shared<Notes>();
  notes->source_file = "wrong.cpp";
  notes->source_line = 41;
  const Value root =
      main.emit(*subject.op, operands, subject.attributes,
                {.type = subject.op->type_inferable ? Type() : subject.type, .called = subject.called, .notes = notes});
  const ComputationId entry = copy.add(std::move(main), root);
  return copy.finish(entry);
}

template <class F>
std::string error_of(F&& action) {
  try {
    action();
  } catch (const InternalError& error) {
    return std::string("internal: ") + error.what();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void expect_good_message(const std::string& text, const Sample& sample, const std::vector<Type>& types,
                         const std::string& what) {
  SCOPED_TRACE(fmt::format("{} given {}: {}", name_of(sample), what, text));
  EXPECT_EQ(text.rfind(sample.op + ": ", 0), 0U);
  for (int i = 0; i < isize(types); ++i)
    EXPECT_NE(text.find(fmt::format("%w{}: {}", i, at(types, i).str())), std::string::npos);
  EXPECT_NE(text.find("\n  at   wrong.cpp:41, rank 0 of 1"), std::string::npos);
}

// Wrong operands that an op accepts because they are also valid. The law requires that all others are refused.
// Elementwise ops with one operand accept any dims.
using Accepted = std::map<std::string, std::set<std::string>>;
const std::set<std::string> kAnything = {"a dim more", "another dtype", "another size", "a token", "a tuple"};
const Accepted kTakenByBuilder = {
    {"add-dependency #0", {"a dim more", "another dtype", "another size"}},
    {"all-reduce-done #0", {"a dim more", "a token", "a tuple", "another dtype", "another size"}},
    {"all-reduce-start #0", {"a dim more", "another size"}},
    {"async-done #0", {"an element fewer"}},
    {"async-update #0", {"a token", "an array", "an element fewer"}},
    {"attention #2", {"another size"}},   // the depth of values
    {"attention #3", {"another dtype"}},  // a mask may be pred
    {"attention-backward #6", {"another dtype"}},
    {"batch-norm-inference #0", {"a dim more", "another size"}},
    {"batch-norm-training #0", {"a dim more", "another size"}},
    {"copy-done #0", {"an element fewer"}},
    {"domain #0", {"a dim more", "a token", "a tuple", "another dtype", "another size"}},
    {"get-dimension-size #0", {"a dim more", "another dtype", "another size"}},
    {"outfeed #0", {"a dim more", "a token", "a tuple", "another dtype", "another size"}},
    {"ragged-dot #0", {"a dim more", "another size"}},
    {"ragged-dot #1", {"a dim more", "another size"}},
    {"ragged-dot #2", {"another size"}},
    {"scaled-dot #0", {"a dim more"}},
    {"scaled-dot #1", {"a dim more"}},
    {"scaled-dot #2", {"another dtype", "another size"}},  // a scale of any type, for other block sizes
    {"scaled-dot #3", {"another dtype", "another size"}},
    {"send #0", {"a dim more", "a token", "a tuple", "another dtype", "another size"}},
    {"topk #0", {"a dim more", "another size"}},
    {"triangular-solve #1", {"another size"}},
    {"all-gather #0", {"a dim more", "another dtype", "another size"}},
    {"all-reduce #0", {"a dim more", "another size"}},
    {"all-to-all #0", {"a dim more", "another dtype", "another size"}},
    {"clamp #1", {"a dim more", "another size"}},  // between scalars
    {"collective-broadcast #0", {"a dim more", "another dtype", "another size"}},
    {"collective-permute #0", {"a dim more", "another dtype", "another size"}},
    // Valid for a single operand, and with another size of the concatenated dim.
    {"concatenate #0", {"a dim more", "another dtype", "another size"}},
    {"concatenate #1", {"another size"}},
    {"convert #0", {"another dtype"}},
    {"convolution #0", {"another size"}},  // image and batch
    {"convolution #1", {"another size"}},  // output features
    {"copy #0", kAnything},
    {"custom-call #0", kAnything},
    {"custom-call #1", kAnything},
    {"dot #0", {"a dim more", "another size"}},  // free dims
    {"dot #1", {"a dim more", "another size"}},
    {"dynamic-slice #0", {"another dtype", "another size"}},
    {"dynamic-update-slice #0", {"another size"}},
    {"gather #0", {"another dtype", "another size"}},
    {"gather #1", {"a dim more", "another size"}},
    {"get-tuple-element #0", {"an element fewer"}},
    {"move-to-device #0", {"a dim more", "another dtype", "another size"}},
    {"move-to-host #0", {"a dim more", "another dtype", "another size"}},
    {"not #0", {"a dim more", "another dtype", "another size"}},
    {"opt-barrier #0",
     {"a dim more", "another dtype", "another size", "a token", "a tuple", "an array", "an element fewer"}},
    {"pad #0", {"another size"}},
    {"reduce #0", {"a dim more", "another size"}},         // dims that are not reduced
    {"reduce-window #0", {"a dim more", "another size"}},  // dims without a window; the window fits further images
    {"reduce-scatter #0", {"a dim more", "another size"}},
    {"reverse #0", {"a dim more", "another dtype", "another size"}},
    {"scatter #0", {"another size"}},
    {"slice #0", {"another dtype", "another size"}},
    {"sort #0", {"a dim more", "another size"}},
    {"transpose #0", {"another dtype", "another size"}},
    {"tuple #0", kAnything},
    {"tuple #1", kAnything}};
// In text the result type is also given, so only operands that do not change it can be accepted.
const Accepted kTakenInText = {{"async-done #0", {"an element fewer"}},
                               {"attention #3", {"another dtype"}},
                               {"attention-backward #6", {"another dtype"}},
                               {"copy-done #0", {"an element fewer"}},
                               {"dot #0", {"another dtype"}},  // the result type is declared
                               {"dot #1", {"another dtype"}},
                               {"scaled-dot #0", {"another dtype"}},
                               {"scaled-dot #1", {"another dtype"}},
                               {"scaled-dot #2", {"another dtype", "another size"}},
                               {"scaled-dot #3", {"another dtype", "another size"}},
                               {"get-dimension-size #0", {"a dim more", "another dtype", "another size"}},
                               {"outfeed #0", {"a dim more", "a token", "a tuple", "another dtype", "another size"}},
                               {"topk #0", {"another size"}},
                               {"convert #0", {"another dtype"}},
                               {"custom-call #0", kAnything},
                               {"custom-call #1", kAnything},
                               {"dynamic-slice #0", {"another size"}},
                               {"gather #0", {"another size"}},
                               {"get-tuple-element #0", {"an element fewer"}},
                               {"reduce #0", {"another size"}},
                               {"slice #0", {"another size"}}};

void expect_accepted(const Accepted& accepted, const Accepted& expected) {
  for (const auto& [key, kinds] : expected) {
    const auto found = accepted.find(key);
    EXPECT_EQ(found == accepted.end() ? std::set<std::string>{} : found->second, kinds) << key;
  }
  for (const auto& [key, kinds] : accepted)
    EXPECT_TRUE(expected.contains(key)) << key << " takes " << fmt::format("{}", fmt::join(kinds, "\", \""));
}

// Calls f(subject, its program, operand types, operand, description) with every wrong type of every operand of every
// sample.
template <class F>
void for_each_wrong_operand(F&& f) {
  for (const auto& sample : op_samples()) {
    const auto [program, subject] = program_of(sample);
    const Instruction& instruction = program.entry_computation()[subject];
    const auto right = view_of(program, program.entry_computation(), instruction).operands;
    for (int i = 0; i < isize(right); ++i)
      for (const auto& wrong : wrong_types(at(right, i))) {
        std::vector<Type> types = right;
        at(types, i) = wrong.type;
        f(sample, program, instruction, types, i, wrong.what);
      }
  }
}

TEST(OpLaws, EachWrongOperandGivesAnErrorThatNamesOpShapesAndSource) {
  Accepted accepted;
  for_each_wrong_operand([&](const Sample& sample, const Program& program, const Instruction& instruction,
                             const std::vector<Type>& types, int operand, const std::string& what) {
    const std::string text = error_of([&] { program_on(program, instruction, types); });
    if (!text.empty()) return expect_good_message(text, sample, types, fmt::format("{} as operand {}", what, operand));
    accepted[fmt::format("{} #{}", sample.op, operand)].insert(what);
  });
  Accepted expected = kTakenByBuilder;
  for (const OpDef* row : op_table().rows())
    if (row->elementwise && row->max_operands == 1 && !expected.contains(fmt::format("{} #0", row->name)))
      expected[fmt::format("{} #0", row->name)] = {"a dim more", "another size"};
  expect_accepted(accepted, expected);
}

TEST(OpLaws, AWrongNumberOfOperandsIsAnErrorThatNamesIt) {
  for (const auto& sample : op_samples()) {
    const auto [program, subject] = program_of(sample);
    const Instruction& instruction = program.entry_computation()[subject];
    const auto right = view_of(program, program.entry_computation(), instruction).operands;
    const auto expect_refused = [&](std::size_t count) {
      std::vector<Type> types = right;
      types.resize(count, f32(3));
      const std::string text = error_of([&] { program_on(program, instruction, types); });
      expect_good_message(text, sample, types, fmt::format("{} operands", count));
      EXPECT_NE(text.find(fmt::format(", got {}\n", count)), std::string::npos) << text;
    };
    const int most = instruction.op->max_operands;
    if (most >= 0) expect_refused(static_cast<std::size_t>(most) + 1);
    if (instruction.op->min_operands > 0) expect_refused(static_cast<std::size_t>(instruction.op->min_operands) - 1);
  }
}

// ---- the same in text -------------------------------------------------------------------------------------------------------

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from << " is not in\n" << text;
  return place == std::string::npos ? text : text.replace(place, from.size(), to);
}

TEST(OpLaws, InTextEachWrongOperandIsShownAtItsLineAndColumn) {
  Accepted accepted;
  for_each_wrong_operand([&](const Sample& sample, const Program& program, const Instruction& instruction,
                             const std::vector<Type>& types, int operand, const std::string& what) {
    const auto right = view_of(program, program.entry_computation(), instruction).operands;
    std::string text = print_program(program_on(program, instruction, right));
    const std::string name = fmt::format("%w{} = ", operand);
    text = replaced(text, name + at(right, operand).str(true), name + at(types, operand).str(true));
    const auto signature = text.find("ENTRY %wrong (");
    const auto body = text.find(" {", signature);
    ASSERT_NE(body, std::string::npos);
    text.erase(signature + 12, body - signature - 12);
    const std::string error = error_of([&] { parse_program(text, op_table(), {.file_name = "wrong.hlo"}); });
    if (error.rfind("wrong.hlo:1:", 0) == 0) {  // only the layout in the header was wrong
      accepted[fmt::format("{} #{}", sample.op, operand)].insert(what);
      return;
    }
    SCOPED_TRACE(fmt::format("{}\n{}", text, error));
    EXPECT_NE(error.find(fmt::format(": {}: ", sample.op)), std::string::npos);
    EXPECT_NE(error.find(fmt::format("%w{}: {}", operand, at(types, operand).str())), std::string::npos);
    EXPECT_EQ(error.back(), '^');
  });
  expect_accepted(accepted, kTakenInText);
}

}  // namespace
}  // namespace tessera::conformance
