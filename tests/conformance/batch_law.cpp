// SPDX-License-Identifier: Apache-2.0
// Law 5: an op for several examples (vmap) gives the results of the op for each example, whichever operands the
// examples share.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "conformance/op_samples.h"
#include "support/error_of.h"
#include "support/sanitizers.h"
#include "tessera/autodiff/batching.h"
#include "tessera/ir/text.h"
#include "tessera/ops/batching.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/structural.h"
#include "tessera/tensor/narrow_dtype.h"

namespace tessera::conformance {
namespace {

constexpr std::int64_t kExamples = 3;

// The program for several examples. `which` are the operands of which each example has its own.
Program program_for_examples(const Program& one, const std::vector<bool>& which) {
  ProgramBuilder program(one);
  Builder main = program.computation("examples");
  std::vector<Batched> arguments;
  const auto types = one.entry_computation().parameter_types();
  for (std::size_t i = 0; i < types.size(); ++i)
    arguments.push_back(
        {ops::parameter(main, static_cast<std::int64_t>(i), which[i] ? with_examples(types[i], kExamples) : types[i]),
         std::vector<bool>(static_cast<std::size_t>(types[i].leaf_count()), which[i])});
  const Batched root = batched(main, one.entry_computation(), arguments, kExamples);
  const Value all = with_batched(root, std::vector<bool>(root.leaves.size(), true), kExamples).value;
  const ComputationId entry = program.add(std::move(main), all);
  return program.finish(entry);
}

// The literals along a further dim 0.
Literal stacked(const std::vector<Literal>& examples) {
  const Type& type = examples.front().type();
  if (type.is_tuple()) {
    std::vector<Literal> out;
    for (std::size_t e = 0; e < type.elements().size(); ++e) {
      std::vector<Literal> elements;
      for (const Literal& example : examples) elements.push_back(example.elements()[e]);
      out.push_back(stacked(elements));
    }
    return Literal::tuple(std::move(out));
  }
  Literal out(with_examples(type, isize(examples)));
  std::byte* next = out.mutable_bytes().data();
  for (const Literal& example : examples) {
    if (!example.bytes().empty()) std::memcpy(next, example.bytes().data(), example.bytes().size());
    next += example.bytes().size();
  }
  return out;
}

// An init of each example is combined with a reduction after it was rounded.
double tolerance_of(DType dtype) {
  if (is_complex(dtype)) dtype = real_dtype(dtype);
  switch (dtype_size(dtype)) {
    case 8: return 1e-9;
    case 4: return 1e-4;
    case 2: return 3e-2;
    default: return 0.3;
  }
}

bool is_near(double a, double b, double tolerance) {
  return a == b || (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) <= tolerance * (1 + std::fabs(b));
}

// The numbers of a float or complex array.
std::vector<double> numbers_of(const Literal& x) {
  std::vector<double> out;
  if (is_complex(x.type().dtype())) {
    visit_any_dtype(x.type().dtype(), [&]<class T>() {
      if constexpr (is_complex(kDTypeOf<T>))
        for (const T& element : x.data<T>())
          out.insert(out.end(), {static_cast<double>(element.real()), static_cast<double>(element.imag())});
    });
  } else {
    for (std::int64_t i = 0; i < x.type().element_count(); ++i) out.push_back(element_as_double(x, i));
  }
  return out;
}

// Returns the first difference between an example of `all` and `one`, or "".
std::string difference_from(const Literal& all, const Literal& one, std::size_t example) {
  const DType dtype = one.type().dtype();
  if (!is_any_float(dtype) && !is_complex(dtype)) {
    const std::size_t size = one.bytes().size();
    return size == 0 || std::memcmp(all.bytes().data() + example * size, one.bytes().data(), size) == 0
               ? ""
               : "other elements";
  }
  const auto got = numbers_of(all);
  const auto expected = numbers_of(one);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double own = got[example * expected.size() + i];
    if (!is_near(own, expected[i], tolerance_of(dtype)))
      return fmt::format("number {} is {}, expected {}", i, own, expected[i]);
  }
  return "";
}

void expect_examples(const Sample& sample, const Program& one, const std::vector<bool>& which) {
  const Program program = program_for_examples(one, which);
  verify(program);
  std::vector<std::vector<Literal>> arguments;
  for (unsigned e = 0; e < kExamples; ++e) arguments.push_back(random_arguments(sample, 1 + 100 * e));
  std::vector<Literal> together;
  for (std::size_t i = 0; i < which.size(); ++i) {
    std::vector<Literal> own;
    for (auto& example : arguments) {
      if (!which[i]) example[i] = arguments.front()[i];
      own.push_back(example[i]);
    }
    together.push_back(which[i] ? stacked(own) : own.front());
  }
  const auto results = evaluate(program, together).leaves();
  for (std::size_t e = 0; e < arguments.size(); ++e) {
    const auto expected = evaluate(one, arguments[e]).leaves();
    ASSERT_EQ(results.size(), expected.size()) << name_of(sample);
    for (std::size_t k = 0; k < expected.size(); ++k) {
      ASSERT_EQ(results[k].type(), with_examples(expected[k].type(), kExamples)) << name_of(sample);
      const std::string text = difference_from(results[k], expected[k], e);
      EXPECT_EQ(text, "") << name_of(sample) << ", example " << e << ", leaf " << k;
    }
  }
}

// Each operand alone, all together, and all sets of up to three operands.
std::vector<std::vector<bool>> operand_sets(std::size_t count) {
  std::vector<std::vector<bool>> out{std::vector<bool>(count, true)};
  for (std::size_t i = 0; i < count; ++i) {
    out.emplace_back(count, false);
    out.back()[i] = true;
  }
  for (std::size_t set = 0; count <= 3 && set + 1 < (std::size_t{1} << count); ++set) {
    std::vector<bool> which;
    for (std::size_t i = 0; i < count; ++i) which.push_back((set >> i & 1U) != 0);
    if (std::count(which.begin(), which.end(), true) > 1) out.push_back(which);
  }
  return out;
}

bool has_arrays_only(const Program& program) {
  for (const Instruction& instruction : program.entry_computation().instructions)
    for (const Type& leaf : instruction.type.leaves())
      if (!leaf.is_array()) return false;
  return true;
}

// Ops that do not occur in a traced function: parts of asynchronous ops, and bitcasts, which depend on layouts.
bool is_of_compilers(const std::string& op) {
  return op.ends_with("-start") || op.ends_with("-done") || op.starts_with("async-") || op == "bitcast";
}

TEST(OpLaws, SeveralExamplesGiveTheResultsOfEachExample) {
  int cases = 0;
  for (const auto& sample : op_samples()) {
    if (sample.operands.empty() || sample.num_partitions != 1 || is_of_compilers(sample.op)) continue;
    const auto [program, subject] = program_of(sample);
    const Instruction& instruction = program.entry_computation()[subject];
    if (!has_arrays_only(program)) continue;
    if (has_side_effect(instruction) || instruction.op->collective != CollectiveKind::kNone) {
      const std::vector<bool> all(sample.operands.size(), true);
      const std::string error = testing::error_of([&] { (void)program_for_examples(program, all); });
      EXPECT_NE(error.find(sample.op + " cannot run for several examples"), std::string::npos)
          << name_of(sample) << ": " << error;
      continue;
    }
    for (const std::vector<bool>& which : operand_sets(sample.operands.size())) {
      if (cases++ % testing::kSanitizedShare != 0) continue;
      std::string text;
      for (const bool own : which) text += own ? "1" : "0";
      SCOPED_TRACE(name_of(sample) + " operands " + text);
      try {
        expect_examples(sample, program, which);
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
  EXPECT_GT(cases, 800);
}

TEST(OpLaws, ScaledProductsAndBatchNormsOfSeveralExamplesAreOneOp) {
  int cases = 0;
  for (const auto& sample : op_samples()) {
    if (sample.op != "scaled-dot" && !sample.op.starts_with("batch-norm-")) continue;
    ++cases;
    const SampleProgram one = program_of(sample);
    const Program all = program_for_examples(one.program, std::vector<bool>(sample.operands.size(), true));
    for (const Instruction& instruction : all.entry_computation().instructions)
      EXPECT_NE(instruction.op->name, "while") << name_of(sample);
  }
  EXPECT_GE(cases, 8);
}

}  // namespace
}  // namespace tessera::conformance
