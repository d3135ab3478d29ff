// SPDX-License-Identifier: Apache-2.0
// Samples of ops: the conformance laws hold for each of them. To test a new op, add a sample to one of the
// op_samples_*.cpp files, whose functions op_samples.cpp collects. A test fails if a row of the op table has no sample.
//
//   {.op = "add", .operands = {{f64(3, 5)}, {f64(3, 5)}}, .build = [](Builder&, const auto& v) { return ops::add(v[0],
//   v[1]); }}
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/ir/builder.h"

namespace tessera::conformance {

/// An operand: its type, and the range of its random values (rounded for integers, so bounds like -5.4 and 5.4 are
/// useful).
struct SampleOperand {
  Type type;
  double low = -2;
  double high = 2;
};

struct Sample {
  std::string op;
  std::string label{};  // distinguishes samples of the same op
  std::vector<SampleOperand> operands{};
  /// Emits one instruction of `op` and the instructions that it needs. Returns the instruction (or the value of that
  /// name if a get-tuple-element follows).
  std::function<Value(Builder&, const std::vector<Value>&)> build;
  /// False for ops whose factors this suite cannot shard: control flow and collectives (the partitioner's tests cover
  /// them).
  bool splits = true;
  /// True for ops for which any operand is valid (tuple, copy): the law about wrong operands does not apply.
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
std::vector<Sample> attention_samples();
/// Returns all samples.
const std::vector<Sample>& op_samples();

/// A sample as a program. Its entry `main` has one parameter for each operand, and the instruction has a source line.
struct SampleProgram {
  Program program;
  Id subject = -1;  // the instruction of the sample's op
};
SampleProgram program_of(const Sample& sample);
/// Returns `add` or `add/bf16`, the name of a sample in messages.
std::string name_of(const Sample& sample);
/// Returns seeded values for every operand, and zeros for token and tuple operands.
std::vector<Literal> random_arguments(const Sample& sample, unsigned seed);
Literal random_literal(const Type& type, double low, double high, unsigned seed);

}  // namespace tessera::conformance
