// SPDX-License-Identifier: Apache-2.0
// Law 3: gradients agree with finite differences in f64. Ops without a gradient report this with their name.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "conformance/op_samples.h"
#include "support/sanitizers.h"
#include "tessera/autodiff/gradients.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/structural.h"

namespace tessera::conformance {
namespace {

bool is_f64(const Type& type) { return type.is_array() && type.dtype() == DType::kF64; }

// Returns the sum of the f64 leaves of a value, weighted with fixed random numbers.
Value weighted_sum(Builder& b, Value x, unsigned& seed) {
  if (x.type().is_tuple()) {
    Value total = ops::scalar(b, DType::kF64, 0);
    for (int i = 0; i < isize(x.type().elements()); ++i)
      total = ops::add(total, weighted_sum(b, ops::get_tuple_element(x, i), seed));
    return total;
  }
  if (!is_f64(x.type())) return ops::scalar(b, DType::kF64, 0);
  Dims all;
  for (int d = 0; d < x.type().ndim(); ++d) all.push_back(d);
  const Value weights = ops::constant(b, random_literal(x.type(), 0.5, 1.5, ++seed));
  const Value weighted = ops::multiply(x, weights);
  return all.empty() ? weighted : ops::reduce(weighted, Reduction::kSum, all);
}

// Returns (weighted sum, its gradients with respect to the f64 operands `wrt`).
Program gradient_program(const Sample& sample, const std::vector<int>& wrt) {
  ProgramBuilder program("gradient");
  program.program().num_partitions = sample.num_partitions;
  Builder main = program.computation("main");
  std::vector<Value> operands;
  for (int i = 0; i < isize(sample.operands); ++i)
    operands.push_back(ops::parameter(main, i, at(sample.operands, i).type, fmt::format("x{}", i)));
  unsigned seed = 40;
  const Value sum = weighted_sum(main, sample.build(main, operands), seed);
  std::vector<Value> asked;
  for (const int i : wrt) asked.push_back(at(operands, i));
  std::vector<Value> results{sum};
  for (const Value gradient : gradients(main, sum, asked)) results.push_back(gradient);
  const Value root = ops::tuple(main, results);
  const ComputationId entry = program.add(std::move(main), root);
  return program.finish(entry);
}

std::vector<int> f64_operands(const Sample& sample) {
  std::vector<int> out;
  for (int i = 0; i < isize(sample.operands); ++i)
    if (is_f64(at(sample.operands, i).type)) out.push_back(i);
  return out;
}

// Returns the results of one device; all devices have the same arguments.
std::vector<Literal> results_of(const Program& program, const std::vector<Literal>& arguments) {
  const std::vector<std::vector<Literal>> all(static_cast<std::size_t>(program.num_partitions), arguments);
  return evaluate_lockstep(program, all).front().elements();
}

// Returns (f(x + h) - f(x - h)) / 2h for one element.
double central_difference(const Program& program, std::vector<Literal> arguments, int operand, std::size_t element) {
  constexpr double kStep = 1e-5;
  double& x = at(arguments, operand).mutable_data<double>()[element];
  const double middle = x;
  x = middle + kStep;
  const double above = element_as_double(results_of(program, arguments)[0], 0);
  at(arguments, operand).mutable_data<double>()[element] = middle - kStep;
  const double below = element_as_double(results_of(program, arguments)[0], 0);
  return (above - below) / (2 * kStep);
}

void expect_gradients_match(const Sample& sample) {
  const std::vector<int> wrt = f64_operands(sample);
  const Program program = gradient_program(sample, wrt);
  const auto arguments = random_arguments(sample, 3);
  const auto results = results_of(program, arguments);
  for (std::size_t k = 0; k < wrt.size(); ++k) {
    const Literal& gradient = results[k + 1];
    ASSERT_EQ(gradient.type().str(), at(arguments, wrt[k]).type().str()) << name_of(sample);
    const std::size_t count = gradient.data<double>().size();
    const std::size_t stride = count / 40 * 2 + 1;  // of large operands, a part of the elements
    for (std::size_t i = 0; i < count; i += stride) {
      const double difference = central_difference(program, arguments, wrt[k], i);
      const double value = gradient.data<double>()[i];
      EXPECT_NEAR(value, difference, 1e-7 * (1 + std::fabs(difference)))
          << name_of(sample) << ": operand " << wrt[k] << " element " << i;
    }
  }
}

std::string error_of_gradient(const Sample& sample) {
  try {
    gradient_program(sample, f64_operands(sample));
  } catch (const InternalError& error) {
    return std::string("internal: ") + error.what();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(OpLaws, GradientsEqualFiniteDifferencesOrTheErrorNamesTheOp) {
  std::set<std::string> checked;
  int samples = 0;
  for (const auto& sample : op_samples()) {
    if (f64_operands(sample).empty()) continue;
    const OpDef& op = op_table().get(sample.op);
    if (op.gradient_kind == GradientKind::kNone) {
      const std::string text = error_of_gradient(sample);
      const auto [program, subject] = program_of(sample);
      const bool passes_floats = is_f64(program.entry_computation()[subject].type);
      EXPECT_TRUE(!passes_floats || text.find(sample.op) != std::string::npos) << name_of(sample) << ": " << text;
      continue;
    }
    const bool is_first = checked.insert(sample.op).second;
    if (!is_first && samples++ % testing::kSanitizedShare != 0) continue;
    expect_gradients_match(sample);
  }
  // Gradients of collectives need several devices: tests/frontend/shard_map_test.cpp compares them.
  for (const OpDef* row : op_table().rows())
    EXPECT_TRUE(row->collective != CollectiveKind::kNone || row->gradient_kind != GradientKind::kFunction ||
                checked.contains(std::string(row->name)))
        << row->name << " has no f64 sample";
}

}  // namespace
}  // namespace tessera::conformance
