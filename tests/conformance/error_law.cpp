// SPDX-License-Identifier: Apache-2.0
// Law 5: each wrong operand gives an error that names op, shapes and source line.
#include <gtest/gtest.h>

#include "conformance/op_samples.h"
#include "tessera/ops/structural.h"

namespace tessera::conformance {
namespace {

struct Wrong {
  std::string what;
  Type type;
};

std::vector<Wrong> wrong_types(const Type& right) {
  std::vector<Wrong> out{{"a token", Type::token()}, {"a tuple", Type::tuple({right, right})}};
  if (!right.is_array()) return out;
  Dims longer = right.dims();
  longer.push_back(13);
  out.push_back({"one dim more", Type::array(right.dtype(), longer)});
  out.push_back({"another element type", right.with_dtype(right.dtype() == DType::kPred ? DType::kF32 : DType::kPred)});
  if (right.ndim() > 0) {
    Dims larger = right.dims();
    larger.back() += 11;
    out.push_back({"another size", Type::array(right.dtype(), larger)});
  }
  return out;
}

// The instruction once more, with operand types as given; the text of the error, or "" when it is accepted.
std::string error_of(const Program& program, const Instruction& subject, const std::vector<Type>& types) {
  ProgramBuilder copy(program);
  Builder main = copy.computation("wrong");
  std::vector<Value> operands;
  for (int i = 0; i < isize(types); ++i)
    operands.push_back(ops::parameter(main, i, at(types, i), fmt::format("w{}", i)));
  auto notes = std::make_shared<Notes>();
  notes->source_file = "wrong.cpp";
  notes->source_line = 41;
  try {
    main.emit(*subject.op, operands, subject.attributes,
              {.type = subject.op->type_inferable ? Type() : subject.type, .called = subject.called, .notes = notes});
  } catch (const InternalError& error) {
    return std::string("internal: ") + error.what();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void expect_good_message(const std::string& text, const Sample& sample, const std::vector<Type>& types,
                         const std::string& what) {
  EXPECT_EQ(text.find("internal: "), std::string::npos) << name_of(sample) << " given " << what << ": " << text;
  EXPECT_EQ(text.rfind(sample.op + ": ", 0), 0U) << name_of(sample) << " given " << what << ": " << text;
  for (int i = 0; i < isize(types); ++i)
    EXPECT_NE(text.find(fmt::format("%w{}: {}", i, at(types, i).str())), std::string::npos) << text;
  EXPECT_NE(text.find("wrong.cpp:41"), std::string::npos) << text;
}

TEST(OpLaws, EachWrongOperandGivesAnErrorThatNamesOpShapesAndSource) {
  for (const auto& sample : op_samples()) {
    if (sample.takes_anything) continue;
    const auto [program, subject] = program_of(sample);
    const Instruction& instruction = program.entry_computation()[subject];
    const OpView view = view_of(program, program.entry_computation(), instruction);
    ASSERT_EQ(error_of(program, instruction, view.operands), "") << name_of(sample);
    for (int i = 0; i < isize(view.operands); ++i) {
      int refused = 0;
      for (const auto& wrong : wrong_types(at(view.operands, i))) {
        std::vector<Type> types = view.operands;
        at(types, i) = wrong.type;
        const std::string text = error_of(program, instruction, types);
        if (text.empty()) continue;
        ++refused;
        expect_good_message(text, sample, types, wrong.what);
      }
      EXPECT_GT(refused, 0) << name_of(sample) << " takes anything as operand " << i;
    }
  }
}

TEST(OpLaws, AWrongNumberOfOperandsIsNamed) {
  for (const auto& sample : op_samples()) {
    const auto [program, subject] = program_of(sample);
    const Instruction& instruction = program.entry_computation()[subject];
    if (instruction.op->max_operands < 0) continue;
    std::vector<Type> types = view_of(program, program.entry_computation(), instruction).operands;
    types.resize(static_cast<std::size_t>(instruction.op->max_operands) + 1, f32(3));
    const std::string text = error_of(program, instruction, types);
    expect_good_message(text, sample, types, "one operand more");
    EXPECT_NE(text.find(fmt::format("got {}", types.size())), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace tessera::conformance
