// SPDX-License-Identifier: Apache-2.0
#include "conformance/op_samples.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tessera/ops/windows.h"

namespace tessera::conformance {
namespace {

using Values = std::vector<Value>;

ConvolutionAttributes attributes(const char* window, const char* labels, std::int64_t feature_groups = 1,
                                 std::int64_t batch_groups = 1) {
  ConvolutionAttributes a;
  parse_field(window, a.window);
  parse_field(labels, a.dim_labels);
  a.feature_group_count = feature_groups;
  a.batch_group_count = batch_groups;
  return a;
}

void add_convolutions(std::vector<Sample>& out) {
  const auto one = [&](const Type& lhs, const Type& rhs, const ConvolutionAttributes& a) {
    out.push_back({.op = "convolution",
                   .label = lhs.str() + rhs.str() + field_text(a.window) + field_text(a.dim_labels),
                   .operands = {{lhs, -4, 4}, {rhs, -4, 4}},
                   .build = [=](Builder&, const Values& v) { return ops::convolution(v[0], v[1], a); }});
  };
  // f64 for the gradients, f32 for the kernels.
  const auto convolution = [&](const Type& lhs, const Type& rhs, const ConvolutionAttributes& a) {
    one(lhs, rhs, a);
    if (lhs.dtype() == DType::kF64) one(lhs.with_dtype(DType::kF32), rhs.with_dtype(DType::kF32), a);
  };
  convolution(f64(2, 5, 7, 3), f64(3, 3, 3, 2), attributes("{size=3x3 pad=1_1x1_1}", "b01f_01io->b01f"));
  convolution(f64(2, 3, 7, 5), f64(2, 3, 3, 2),
              attributes("{size=3x2 stride=2x3 pad=0_1x-1_2 rhs_dilate=1x2 rhs_reversal=1x0}", "bf01_oi01->bf01"));
  convolution(f64(3, 5, 2), f64(4, 2, 3), attributes("{size=4 pad=3_2 lhs_dilate=2}", "b0f_0io->0bf"));
  convolution(f64(2, 7, 6), f64(3, 2, 6), attributes("{size=3 stride=2 pad=1_1}", "b0f_0io->b0f", 3));
  convolution(f64(6, 7, 2), f64(3, 2, 4), attributes("{size=3 rhs_dilate=2 pad=2_1}", "b0f_0io->b0f", 1, 2));
  convolution(f64(3, 5), f64(5, 2), attributes("{}", "bf_io->bf"));
  // Convolutions as they occur in gradients: of the image, of the kernel, and of a kernel with groups.
  convolution(f64(2, 3, 5, 4), f64(3, 2, 3, 4),
              attributes("{size=3x2 pad=2_1x0_1 lhs_dilate=2x1 rhs_reversal=1x1}", "b01f_01oi->b01f"));
  convolution(f64(3, 7, 9, 2), f64(2, 5, 4, 3), attributes("{size=5x4 pad=1_0x0_1 rhs_dilate=1x2}", "f01b_o01i->01bf"));
  convolution(f64(3, 7, 4), f64(3, 5, 6), attributes("{size=5 pad=1_-1}", "f0b_i0o->0bf", 1, 2));
  convolution(f32(1, 3, 2, 4, 2), f32(2, 1, 3, 2, 3),
              attributes("{size=2x1x3 pad=0_1x0_0x1_1 lhs_dilate=1x2x1}", "b012f_012io->b012f"));
  convolution(bf16(2, 7, 3), bf16(3, 3, 2), attributes("{size=3 pad=1_1}", "b0f_0io->b0f"));
  convolution(s32(2, 7, 3), s32(3, 3, 2), attributes("{size=3 pad=1_1}", "b0f_0io->b0f"));
}

WindowDims window_of(const char* text) {
  WindowDims out;
  parse_field(text, out);
  return out;
}

void add_reduce_windows(std::vector<Sample>& out) {
  const auto reduce_window = [&](const Type& type, Reduction reduction, const char* window) {
    out.push_back({.op = "reduce-window",
                   .label = type.str() + std::string(reduction_name(reduction)) + window,
                   .operands = {{type}, {Type::scalar(type.dtype()), -3, -2.6}},
                   .build = [=](Builder& b, const Values& v) {
                     const auto to_apply = ops::reduction_computation(b.program(), reduction, type.dtype());
                     return ops::reduce_window({v[0]}, {v[1]}, window_of(window), to_apply);
                   }});
  };
  reduce_window(f64(7, 5), Reduction::kSum, "{size=3x2 stride=2x1 pad=1_1x0_1}");
  reduce_window(f64(7, 5), Reduction::kSum, "{size=2x3 lhs_dilate=2x1 rhs_dilate=1x2 pad=1_0x2_1}");
  reduce_window(f64(7, 5), Reduction::kMax, "{size=3x1 stride=2x1 pad=1_1x0_0}");
  reduce_window(f64(11), Reduction::kMin, "{size=3 stride=3 pad=0_2}");
  reduce_window(f64(7, 5), Reduction::kMax, "{size=3x2 stride=1x2 rhs_dilate=2x1 pad=1_1x0_1}");
  reduce_window(f64(5, 3), Reduction::kMax, "{size=2x3 lhs_dilate=2x1 rhs_dilate=1x2 pad=1_0x2_1}");
  reduce_window(f32(3, 5), Reduction::kSum, "{}");
  reduce_window(f32(7), Reduction::kProduct, "{size=2}");
  reduce_window(bf16(7, 3), Reduction::kMax, "{size=2x1 stride=2x1}");
  reduce_window(s32(7, 3), Reduction::kSum, "{size=3x1 pad=1_1x0_0}");
  reduce_window(f64(7, 5), Reduction::kSum, "{size=7x1 pad=6_0x0_0}");  // cumulative
  reduce_window(f32(3, 7), Reduction::kMax, "{size=1x5 pad=0_0x4_3}");  // not cumulative
  reduce_window(f32(3, 7), Reduction::kMin, "{size=1x7 pad=0_0x0_6}");  // cumulative from the last element
  reduce_window(bf16(7, 3), Reduction::kProduct, "{size=9x1 pad=7_1x0_0}");
  reduce_window(s32(2, 7, 3), Reduction::kSum, "{size=1x7x1 pad=0_0x6_0x0_0}");
  reduce_window(pred(7), Reduction::kOr, "{size=3 pad=1_1}");
  out.push_back({.op = "reduce-window",
                 .label = "two operands",
                 .operands = {{f32(7, 3)}, {s32(7, 3)}, {f32(), -9, -8}, {s32()}},
                 .build = [](Builder& b, const Values& v) {
                   Builder c = b.program().computation("greater");
                   const Value x = ops::parameter(c, 0, f32());
                   const Value i = ops::parameter(c, 1, s32());
                   const Value y = ops::parameter(c, 2, f32());
                   const Value j = ops::parameter(c, 3, s32());
                   const Value keeps = ops::compare(x, y, CompareDirection::kGe);
                   const Value root = ops::tuple(c, {ops::select(keeps, x, y), ops::select(keeps, i, j)});
                   const auto id = b.program().add(std::move(c), root);
                   return ops::reduce_window({v[0], v[1]}, {v[2], v[3]}, window_of("{size=3x1 pad=1_1x0_0}"), id);
                 }});
}

void add_select_and_scatters(std::vector<Sample>& out) {
  const auto select_and_scatter = [&](const Type& type, const Type& source, const char* window,
                                      CompareDirection direction) {
    out.push_back({.op = "select-and-scatter",
                   .label = type.str() + window,
                   .operands = {{type}, {source}, {Type::scalar(type.dtype())}},
                   .build = [=](Builder& b, const Values& v) {
                     const Type scalar = Type::scalar(type.dtype());
                     Builder c = b.program().computation("prefers");
                     const Value x = ops::parameter(c, 0, scalar);
                     const Value y = ops::parameter(c, 1, scalar);
                     const Value keeps = ops::compare(x, y, direction);
                     const auto select = b.program().add(std::move(c), keeps);
                     const auto scatter = ops::reduction_computation(b.program(), Reduction::kSum, type.dtype());
                     return ops::select_and_scatter(v[0], v[1], v[2], window_of(window), select, scatter);
                   }});
  };
  select_and_scatter(f64(7, 3), f64(4, 3), "{size=3x1 stride=2x1 pad=1_1x0_0}", CompareDirection::kGe);
  select_and_scatter(f64(6, 5), f64(3, 4), "{size=2x2 stride=2x1}", CompareDirection::kLe);
  select_and_scatter(f64(5, 3), f64(5, 5), "{size=3x3 pad=2_0x2_2}", CompareDirection::kLt);
  select_and_scatter(f32(11), f32(4), "{size=2 stride=3 pad=0_1}", CompareDirection::kGt);
  select_and_scatter(s32(7), s32(6), "{size=2}", CompareDirection::kGe);
}

}  // namespace

std::vector<Sample> window_samples() {
  std::vector<Sample> out;
  add_convolutions(out);
  add_reduce_windows(out);
  add_select_and_scatters(out);
  return out;
}

}  // namespace tessera::conformance
