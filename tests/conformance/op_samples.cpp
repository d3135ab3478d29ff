// SPDX-License-Identifier: Apache-2.0
#include "conformance/op_samples.h"

#include <cmath>
#include <random>

#include "tessera/ops/op_table.h"
#include "tessera/ops/structural.h"

namespace tessera::conformance {

const std::vector<Sample>& op_samples() {
  static const std::vector<Sample> all = [] {
    std::vector<Sample> out;
    for (auto* samples : {elementwise_samples, structural_samples, contraction_samples, window_samples,
                          indexing_samples, control_samples, effect_samples, math_samples, attention_samples})
      for (auto& sample : samples()) out.push_back(std::move(sample));
    return out;
  }();
  return all;
}

SampleProgram program_of(const Sample& sample) {
  ProgramBuilder program("sample");
  program.program().num_partitions = sample.num_partitions;
  Builder main = program.computation("main");
  main.default_notes = notes_at(std::source_location::current());
  std::vector<Value> operands;
  for (int i = 0; i < isize(sample.operands); ++i)
    operands.push_back(ops::parameter(main, i, at(sample.operands, i).type, fmt::format("x{}", i)));
  const Value root = sample.build(main, operands);
  SampleProgram out;
  for (Id id = 0; id < main.computation().size(); ++id)
    if (main[id].op->name == sample.op) out.subject = id;
  ensure(out.subject >= 0, "the sample {} emits no {}", name_of(sample), sample.op);
  const ComputationId entry = program.add(std::move(main), root);
  out.program = program.finish(entry);
  return out;
}

std::string name_of(const Sample& sample) { return sample.label.empty() ? sample.op : sample.op + "/" + sample.label; }

Literal random_literal(const Type& type, double low, double high, unsigned seed) {
  Literal out(type);
  if (!type.is_array()) return out;
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> draw(low, high);
  visit_dtype(type.dtype(), [&]<class T>() {
    for (auto& element : out.mutable_data<T>()) {
      const double value = draw(engine);
      if constexpr (kDTypeOf<T> == DType::kPred)
        element = value > (low + high) / 2;
      else if constexpr (is_float(kDTypeOf<T>))
        element = static_cast<T>(value);
      else
        element = static_cast<T>(
            static_cast<std::int64_t>(std::lround(is_unsigned_int(kDTypeOf<T>) ? std::fabs(value) : value)));
    }
  });
  return out;
}

std::vector<Literal> random_arguments(const Sample& sample, unsigned seed) {
  std::vector<Literal> out;
  for (const auto& operand : sample.operands)
    out.push_back(random_literal(operand.type, operand.low, operand.high, ++seed * 7919));
  return out;
}

}  // namespace tessera::conformance
