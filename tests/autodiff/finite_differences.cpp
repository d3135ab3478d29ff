// SPDX-License-Identifier: Apache-2.0
#include "autodiff/finite_differences.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tessera/autodiff/gradients.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/structural.h"

namespace tessera::testing {
namespace {

struct Programs {
  Program value;
  Program gradient;  // a tuple with one gradient for each float parameter
  std::vector<int> wrt;
};

std::vector<Value> add_parameters(Builder& main, const std::vector<Type>& types) {
  std::vector<Value> out;
  for (const Type& type : types) out.push_back(ops::parameter(main, isize(out), type));
  return out;
}

Programs programs_of(const Model& model, const std::vector<Type>& types) {
  Programs out;
  for (int i = 0; i < isize(types); ++i)
    if (is_float(at(types, i).dtype())) out.wrt.push_back(i);
  {
    ProgramBuilder program("value");
    Builder main = program.computation("main");
    const Value result = model(main, add_parameters(main, types));
    const auto entry = program.add(std::move(main), result);
    out.value = program.finish(entry);
  }
  ProgramBuilder program("gradient");
  Builder main = program.computation("main");
  const auto parameters = add_parameters(main, types);
  const Value result = model(main, parameters);
  std::vector<Value> wrt;
  for (const int i : out.wrt) wrt.push_back(at(parameters, i));
  const Value all = ops::tuple(main, gradients(main, result, wrt));
  const auto entry = program.add(std::move(main), all);
  out.gradient = program.finish(entry);
  return out;
}

double value_at(const Program& program, std::vector<Literal> arguments, int which, std::int64_t element, double step) {
  at(at(arguments, which).mutable_data<double>(), element) += step;
  return evaluate(program, arguments).data<double>()[0];
}

}  // namespace

Literal seeded(const Type& type, unsigned seed) {
  Literal out(type);
  std::uint64_t state = seed * 0x9E3779B97F4A7C15ULL + 1;
  for (double& value : out.mutable_data<double>()) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    value = static_cast<double>(static_cast<std::int64_t>(state)) / 9223372036854775808.0;
  }
  return out;
}

Value total(Value x) {
  Dims dims;
  for (std::int64_t d = 0; d < x.type().ndim(); ++d) dims.push_back(d);
  return dims.empty() ? x : ops::reduce(x, Reduction::kSum, dims);
}

Value weighed(Value x) {
  const Value flat = ops::reshape(x, {x.type().element_count()});
  const Value weights = ops::add(ops::iota(*x.builder, flat.type(), 0), ops::full(*x.builder, flat.type(), 0.5));
  return total(ops::multiply(flat, ops::sin(weights)));
}

Model derivative(Model model, int order) {
  if (order == 0) return model;
  return derivative(
      [model = std::move(model)](Builder& main, const std::vector<Value>& parameters) {
        std::vector<Value> wrt;
        for (const Value& parameter : parameters)
          if (is_float(parameter.type().dtype())) wrt.push_back(parameter);
        Value sum = ops::scalar(main, DType::kF64, 0);
        for (const Value& gradient : gradients(main, model(main, parameters), wrt))
          sum = ops::add(sum, weighed(gradient));
        return sum;
      },
      order - 1);
}

void expect_gradients(const Model& model, const std::vector<Literal>& arguments) {
  std::vector<Type> types;
  for (const Literal& argument : arguments) types.push_back(argument.type());
  const Programs programs = programs_of(model, types);
  const Literal gradients = evaluate(programs.gradient, arguments);
  constexpr double kStep = 1e-5;
  for (int k = 0; k < isize(programs.wrt); ++k) {
    const int which = at(programs.wrt, k);
    const auto gradient = at(gradients.elements(), k).data<double>();
    for (std::int64_t i = 0; i < at(arguments, which).type().element_count(); ++i) {
      const double difference = (value_at(programs.value, arguments, which, i, kStep) -
                                 value_at(programs.value, arguments, which, i, -kStep)) /
                                (2 * kStep);
      EXPECT_NEAR(at(gradient, i), difference, 2e-8 * (1 + std::fabs(difference)))
          << "parameter " << which << " element " << i;
    }
  }
}

Program gradient_program(const Model& model, const std::vector<Type>& types) {
  ProgramBuilder program("gradient");
  Builder main = program.computation("main");
  const auto parameters = add_parameters(main, types);
  const Value gradient = gradients(main, model(main, parameters), {parameters[0]})[0];
  const auto entry = program.add(std::move(main), gradient);
  return program.finish(entry);
}

}  // namespace tessera::testing
