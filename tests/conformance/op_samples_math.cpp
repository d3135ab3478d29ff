// SPDX-License-Identifier: Apache-2.0
// Complex numbers, transforms, linear algebra, top-k, rounding ops, and other computations on arrays.
#include "conformance/op_samples.h"
#include "tessera/ops/batch_norm.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/linear_algebra.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/structural.h"

namespace tessera::conformance {
namespace {

using Values = std::vector<Value>;

// Parameters and results are real: the sample converts to complex numbers before the op and extracts the parts after
// it.
void add_complex(std::vector<Sample>& out) {
  out.push_back({.op = "complex", .operands = {{f64(3, 5)}, {f64(3, 5)}}, .build = [](Builder&, const Values& v) {
                   const Value z = ops::complex(v[0], v[1]);
                   return ops::add(ops::real(z), ops::multiply(ops::imag(z), ops::imag(z)));
                 }});
  using Unary = Value (*)(Value);
  for (const auto& [name, take] : {std::pair<const char*, Unary>{"real", ops::real}, {"imag", ops::imag}})
    out.push_back({.op = name,
                   .operands = {{f64(3, 5)}, {f64(3, 5)}},
                   .build = [take = take](Builder&, const Values& v) { return take(ops::complex(v[0], v[1])); }});
  using Binary = Value (*)(Value, Value);
  for (const auto& [name, apply] : {std::pair<const char*, Binary>{"add", ops::add}, {"subtract", ops::subtract}})
    out.push_back({.op = name,
                   .label = "c128",
                   .operands = {{f64(3, 5)}, {f64(3, 5)}},
                   .build = [apply = apply](Builder&, const Values& v) {
                     const Value z = apply(ops::complex(v[0], v[1]), ops::complex(v[1], v[0]));
                     return ops::real(z);
                   }});
  for (const auto& [name, apply] : {std::pair<const char*, Binary>{"multiply", ops::multiply}, {"divide", ops::divide}})
    out.push_back({.op = name,
                   .label = "c64",
                   .operands = {{f32(3, 5), 0.5, 2}, {f32(3, 5), 0.5, 2}},
                   .build = [apply = apply](Builder&, const Values& v) {
                     return apply(ops::complex(v[0], v[1]), ops::complex(v[1], v[0]));
                   }});
  out.push_back(
      {.op = "dot", .label = "c64", .operands = {{f32(3, 5)}, {f32(5, 7)}}, .build = [](Builder& b, const Values& v) {
         const auto zeros = [&](Value x) { return ops::full(b, x.type(), 0.25); };
         return ops::matmul(ops::complex(v[0], zeros(v[0])), ops::complex(zeros(v[1]), v[1]));
       }});
  out.push_back(
      {.op = "reduce", .label = "c128", .operands = {{f64(3, 5)}, {f64(3, 5)}}, .build = [](Builder&, const Values& v) {
         return ops::reduce(ops::complex(v[0], v[1]), Reduction::kSum, {1});
       }});
}

void add_fft(std::vector<Sample>& out) {
  for (const bool inverse : {false, true})
    out.push_back(
        {.op = "fft",
         .label = inverse ? "IFFT" : "FFT",
         .operands = {{f64(3, 2, 5)}, {f64(3, 2, 5)}},
         .build = [inverse](Builder&, const Values& v) {
           const Value y = ops::fft(ops::complex(v[0], v[1]), inverse ? FftType::kIfft : FftType::kFft, {2, 5});
           return ops::add(ops::real(y), ops::multiply(ops::imag(y), ops::imag(y)));
         }});
  for (const std::int64_t n : {5, 6}) {
    out.push_back({.op = "fft",
                   .label = fmt::format("RFFT {}", n),
                   .operands = {{f64(3, n)}},
                   .build = [n](Builder&, const Values& v) {
                     const Value y = ops::fft(v[0], FftType::kRfft, {n});
                     return ops::add(ops::real(y), ops::multiply(ops::imag(y), ops::imag(y)));
                   }});
    out.push_back(
        {.op = "fft",
         .label = fmt::format("IRFFT {}", n),
         .operands = {{f64(3, n / 2 + 1)}, {f64(3, n / 2 + 1)}},
         .build = [n](Builder&, const Values& v) { return ops::fft(ops::complex(v[0], v[1]), FftType::kIrfft, {n}); }});
  }
}

void add_linear_algebra(std::vector<Sample>& out) {
  for (const bool lower : {true, false})
    out.push_back({.op = "cholesky",
                   .label = lower ? "lower" : "upper",
                   .operands = {{f64(3, 4, 4), -1, 1}},
                   .build = [lower](Builder& b, const Values& v) {
                     // Makes the matrix symmetric and positive definite: adds 9 to the diagonal of 4 x, where |x| <= 1.
                     const Value row = ops::iota(b, Type::array(DType::kS32, {3, 4, 4}), 1);
                     const Value column = ops::iota(b, Type::array(DType::kS32, {3, 4, 4}), 2);
                     const Value diagonal = ops::convert(ops::compare(row, column, CompareDirection::kEq), DType::kF64);
                     const Value heavy = ops::multiply(diagonal, ops::full(b, v[0].type(), 9));
                     const Value symmetric = ops::add(v[0], ops::transpose(v[0], {0, 2, 1}));
                     return ops::cholesky(ops::add(symmetric, heavy), lower);
                   }});
  for (const bool left : {true, false})
    for (const bool lower : {true, false})
      for (const auto transpose : {TransposeA::kNoTranspose, TransposeA::kTranspose, TransposeA::kAdjoint})
        out.push_back({.op = "triangular-solve",
                       .label = fmt::format("{} {} {}", left ? "left" : "right", lower ? "lower" : "upper",
                                            field_text(transpose)),
                       .operands = {{f64(3, 4, 4), 0.5, 1.5}, {left ? f64(3, 4, 5) : f64(3, 5, 4)}},
                       .build = [=](Builder&, const Values& v) {
                         return ops::triangular_solve(v[0], v[1], {left, lower, !left && lower, transpose});
                       }});
}

void add_ragged_dots(std::vector<Sample>& out) {
  const RaggedDotAttributes kept{{}, {1}, {}, {1}, {0}, {0}};
  out.push_back({.op = "ragged-dot",
                 .label = "kept",
                 .operands = {{f32(7, 5)}, {f32(3, 5, 4)}, {s32(3), 1, 2}},
                 .build = [=](Builder&, const Values& v) { return ops::ragged_dot(v[0], v[1], v[2], kept); }});
  const RaggedDotAttributes batched{{0}, {2}, {0}, {2}, {1}, {1}};
  out.push_back({.op = "ragged-dot",
                 .label = "kept in a batch",
                 .operands = {{f32(3, 7, 5)}, {f32(3, 2, 5, 4)}, {s32(3, 2), 1, 3}},
                 .build = [=](Builder&, const Values& v) { return ops::ragged_dot(v[0], v[1], v[2], batched); }});
  const RaggedDotAttributes contracted{{}, {0}, {}, {0}, {0}, {}};
  out.push_back({.op = "ragged-dot",
                 .label = "contracted",
                 .operands = {{f32(7, 5)}, {f32(7, 4)}, {s32(3), 1, 2}},
                 .build = [=](Builder&, const Values& v) { return ops::ragged_dot(v[0], v[1], v[2], contracted); }});
}

void add_batch_norms(std::vector<Sample>& out) {
  const auto attributes = make_attributes(BatchNormAttributes{1e-3, 1});
  const SampleOperand x{f32(3, 5, 2)};
  const SampleOperand feature{f32(5), 0.5, 2};
  out.push_back(
      {.op = "batch-norm-training", .operands = {x, feature, feature}, .build = [=](Builder& b, const Values& v) {
         return b.emit(op_table().get("batch-norm-training"), v, attributes);
       }});
  out.push_back({.op = "batch-norm-inference",
                 .operands = {x, feature, feature, feature, feature},
                 .build = [=](Builder& b, const Values& v) {
                   return b.emit(op_table().get("batch-norm-inference"), v, attributes);
                 }});
  out.push_back(
      {.op = "batch-norm-grad",
       .operands = {x, feature, feature, feature, x},
       .build = [=](Builder& b, const Values& v) { return b.emit(op_table().get("batch-norm-grad"), v, attributes); }});
}

void add_roundings(std::vector<Sample>& out) {
  for (const auto& [exponent, mantissa] : {std::pair<int, int>{8, 7}, {5, 10}})
    out.push_back({.op = "reduce-precision",
                   .label = fmt::format("e{}m{}", exponent, mantissa),
                   .operands = {{f32(3, 5)}},
                   .build = [e = exponent, m = mantissa](Builder&, const Values& v) {
                     return ops::reduce_precision(v[0], e, m);
                   }});
  out.push_back(
      {.op = "reduce-precision", .label = "e11m52", .operands = {{f64(3, 5)}}, .build = [](Builder&, const Values& v) {
         return ops::reduce_precision(v[0], 11, 52);
       }});
  out.push_back({.op = "stochastic-convert",
                 .operands = {{f32(3, 5), -9, 9}, {u32(3, 5), 0, 4e9}},
                 .build = [](Builder& b, const Values& v) {
                   return b.emit(op_table().get("stochastic-convert"), {v[0], v[1]}, nullptr, {.type = s32(3, 5)});
                 }});
}

void add_others(std::vector<Sample>& out) {
  for (const bool largest : {true, false})
    out.push_back({.op = "topk",
                   .label = largest ? "largest" : "smallest",
                   .operands = {{f64(3, 7)}},
                   .build = [largest](Builder&, const Values& v) {
                     return ops::get_tuple_element(ops::topk(v[0], 3, largest), 0);
                   }});
  out.push_back({.op = "topk", .label = "s32", .operands = {{s32(3, 7)}}, .build = [](Builder&, const Values& v) {
                   return ops::topk(v[0], 7);
                 }});
  out.push_back({.op = "map", .operands = {{f32(3, 5)}, {f32(3, 5)}}, .build = [](Builder& b, const Values& v) {
                   Builder f = b.program().computation("scalar_function");
                   const Value x = ops::parameter(f, 0, f32());
                   const Value y = ops::parameter(f, 1, f32());
                   const Value root = ops::add(ops::sin(x), y);
                   return ops::map({v[0], v[1]}, b.program().add(std::move(f), root));
                 }});
  out.push_back({.op = "get-dimension-size", .operands = {{f32(3, 5)}}, .build = [](Builder& b, const Values& v) {
                   return b.emit(op_table().get("get-dimension-size"), {v[0]},
                                 make_attributes(DimensionsAttributes{{1}}));
                 }});
  out.push_back({.op = "bitcast", .operands = {{f32(4, 6)}}, .build = [](Builder& b, const Values& v) {
                   const Type type = Type::array(DType::kF32, {6, 4}, {0, 1});
                   return b.emit(op_table().get("bitcast"), {v[0]}, nullptr, {.type = type});
                 }});
}

}  // namespace

std::vector<Sample> math_samples() {
  std::vector<Sample> out;
  add_complex(out);
  add_fft(out);
  add_linear_algebra(out);
  add_ragged_dots(out);
  add_batch_norms(out);
  add_roundings(out);
  add_others(out);
  return out;
}

}  // namespace tessera::conformance
