// SPDX-License-Identifier: Apache-2.0
// Samples of ops: the conformance laws hold for each. To test a new op, add a sample: in one of the op_samples_*.cpp, whose
// functions op_samples.cpp gathers. A row without a sample fails a test.
//
//   {.op = "add", .operands = {{f64(3, 5)}, {f64(3, 5)}}, .build = [](Builder&, const auto& v) { return ops::add(v[0], v[1]); }}
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/ir/builder.h"

namespace tessera::conformance {

/// An operand: its type, and where its random values lie (integers: rounded, so bounds like -5.4 and 5.4 make sense).
struct SampleOperand {
  Type type;
  double low = -2;
  double high = 2;
};

struct Sample {
  std::string op;
  std::string label{};  // tells samples of one op apart
  std::vector<SampleOperand> operands{};
  /// Emits whatever is needed around one instruction of `op`, which must be the value returned (or the one whose name is
  /// `subject` where a get-tuple-element follows).
  std::function<Value(Builder&, const std::vector<Value>&)> build;
  /// False for ops whose factors this suite cannot split alone: control flow, collectives (the partitioner's tests do).
  bool splits = true;
  /// Any operand is right for these (tuple, copy): no wrong-operand law.
  bool takes_anything = false;
  std::int64_t num_partitions = 1;
};

inline Type array(DType dtype, Dims dims) { return Type::array(dtype, std::move(dims)); }
template <class... Sizes>
Type f64(Sizes... sizes) {
  return Type::array(DType::kF64, Dims{sizes...});
}
template <class... Sizes>
Type f32(Sizes... sizes) {
  return Type::array(DType::kF32, Dims{sizes...});
}
template <class... Sizes>
Type bf16(Sizes... sizes) {
  return Type::array(DType::kBF16, Dims{sizes...});
}
template <class... Sizes>
Type s32(Sizes... sizes) {
  return Type::array(DType::kS32, Dims{sizes...});
}
template <class... Sizes>
Type u32(Sizes... sizes) {
  return Type::array(DType::kU32, Dims{sizes...});
}
template <class... Sizes>
Type pred(Sizes... sizes) {
  return Type::array(DType::kPred, Dims{sizes...});
}

std::vector<Sample> elementwise_samples();
std::vector<Sample> structural_samples();
std::vector<Sample> contraction_samples();
std::vector<Sample> window_samples();
std::vector<Sample> indexing_samples();
std::vector<Sample> control_samples();
std::vector<Sample> effect_samples();
std::vector<Sample> math_samples();
/// All of them.
const std::vector<Sample>& op_samples();

/// A sample as a program: entry `main` with one parameter per operand, which emits with a source line of its own.
struct SampleProgram {
  Program program;
  Id subject = -1;  // the instruction of the sample's op
};
SampleProgram program_of(const Sample& sample);
/// `add`, `add/bf16`: what messages call it.
std::string name_of(const Sample& sample);
/// Seeded values for every operand; token and tuple operands get zeros.
std::vector<Literal> random_arguments(const Sample& sample, unsigned seed);
Literal random_literal(const Type& type, double low, double high, unsigned seed);

}  // namespace tessera::conformance
