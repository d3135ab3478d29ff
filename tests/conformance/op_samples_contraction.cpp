// SPDX-License-Identifier: Apache-2.0
#include "conformance/op_samples.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/structural.h"

namespace tessera::conformance {
namespace {

using Values = std::vector<Value>;

void add_dots(std::vector<Sample>& out) {
  const auto dot = [&](const Type& lhs, const Type& rhs, const DotAttributes& dims,
                       std::optional<DType> result = std::nullopt) {
    out.push_back({.op = "dot",
                   .label = lhs.str() + rhs.str(),
                   .operands = {{lhs, -4, 4}, {rhs, -4, 4}},
                   .build = [=](Builder&, const Values& v) { return ops::dot(v[0], v[1], dims, result); }});
  };
  dot(f64(3, 5), f64(5, 2), {{}, {1}, {}, {0}});
  dot(f64(2, 3, 5), f64(5, 2, 7), {{0}, {2}, {1}, {0}});
  dot(f64(5, 3, 2, 4), f64(4, 3, 7, 5), {{1}, {3, 0}, {1}, {0, 3}});  // two contracting dims, in another order in rhs
  dot(f64(5), f64(5), {{}, {0}, {}, {0}});
  dot(f64(3), f64(2), {{}, {}, {}, {}});
  dot(bf16(3, 5), bf16(5, 2), {{}, {1}, {}, {0}}, DType::kF32);
  dot(s32(3, 5), s32(2, 5), {{}, {1}, {}, {1}});
  dot(pred(3, 5), pred(5, 2), {{}, {1}, {}, {0}});
}

// Scales for blocks of both contracting dims, for each row, and a single scale.
void add_scaled_dots(std::vector<Sample>& out) {
  const auto add = [&](const Type& lhs, const Type& rhs, const Type& lhs_scale, const Type& rhs_scale) {
    out.push_back({.op = "scaled-dot",
                   .label = lhs_scale.str() + rhs_scale.str(),
                   .operands = {{lhs, -4, 4}, {rhs, -4, 4}, {lhs_scale, -2, 2}, {rhs_scale, -2, 2}},
                   .build = [=](Builder& b, const Values& v) {
                     return b.emit(op_table().get("scaled-dot"), v, make_attributes(DotAttributes{{}, {1}, {}, {1}}),
                                   {.type = f32(lhs.dim(0), rhs.dim(0))});
                   }});
  };
  add(f32(3, 12), f32(5, 12), f32(3, 6), f32(5, 6));
  add(f32(3, 12), f32(5, 12), f32(3, 6), f32(5, 1));
  add(f32(3, 12), f32(5, 12), f32(3, 6), f32(5, 4));  // blocks of two different sizes
  add(f32(3, 12), f32(6, 12), f32(1, 1), f32(2, 12));
  add(f32(3, 12), f32(5, 12), Type::scalar(DType::kF32), Type::scalar(DType::kF32));
}

// A reduction over (value, index) pairs: takes the larger value, and of equal values the smaller index.
ComputationId argmax(ProgramBuilder& program, DType dtype) {
  Builder b = program.computation("argmax");
  const Value x = ops::parameter(b, 0, Type::scalar(dtype));
  const Value i = ops::parameter(b, 1, Type::scalar(DType::kS32));
  const Value y = ops::parameter(b, 2, Type::scalar(dtype));
  const Value j = ops::parameter(b, 3, Type::scalar(DType::kS32));
  const Value greater = ops::compare(x, y, CompareDirection::kGt);
  const Value first =
      ops::logical_and(ops::compare(x, y, CompareDirection::kEq), ops::compare(i, j, CompareDirection::kLt));
  const Value keeps = ops::logical_or(greater, first);
  const Value root = ops::tuple(b, {ops::select(keeps, x, y), ops::select(keeps, i, j)});
  return program.add(std::move(b), root);
}

void add_reductions(std::vector<Sample>& out) {
  const auto reduce = [&](const Type& type, Reduction reduction, const Dims& dims) {
    out.push_back({.op = "reduce",
                   .label = type.str() + std::string(reduction_name(reduction)) + field_text(dims),
                   .operands = {{type}, {Type::scalar(type.dtype()), -3, -2.6}},
                   .build = [=](Builder& b, const Values& v) {
                     const auto to_apply = ops::reduction_computation(b.program(), reduction, type.dtype());
                     return ops::reduce({v[0]}, {v[1]}, dims, to_apply);
                   }});
  };
  reduce(f64(3, 5), Reduction::kSum, {1});
  reduce(f64(2, 3, 5), Reduction::kSum, {0, 2});
  reduce(f64(3, 5), Reduction::kMax, {0});
  reduce(f32(3, 5), Reduction::kMin, {0, 1});
  reduce(f32(3, 5), Reduction::kProduct, {1});
  reduce(bf16(3, 7), Reduction::kSum, {1});
  reduce(s32(3, 5), Reduction::kSum, {0});
  reduce(s32(3, 5), Reduction::kAnd, {0});
  reduce(pred(3, 5), Reduction::kOr, {1});
  reduce(f64(3, 5), Reduction::kSum, {});
  reduce(f64(3, 5), Reduction::kProduct, {1});
  reduce(f64(3, 2, 5), Reduction::kMin, {2, 0});
  out.push_back({.op = "reduce",
                 .label = "product with zeros",
                 .operands = {{f64(3, 5)}},
                 .build = [](Builder& b, const Values& v) {
                   // Rows with no zero, one and two.
                   const Value holes =
                       ops::constant(b, Literal::from<double>({3, 5}, {1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 0, 1, 0, 1, 1}));
                   return ops::reduce(ops::multiply(v[0], holes), Reduction::kProduct, {1});
                 }});
  out.push_back(
      {.op = "reduce", .label = "from the identity", .operands = {{f64(5, 3)}}, .build = [](Builder&, const Values& v) {
         return ops::reduce(v[0], Reduction::kSum, {0});
       }});
  out.push_back({.op = "reduce",
                 .label = "argmax",
                 .operands = {{f32(3, 5)}, {s32(3, 5)}, {f32(), -9, -8}, {s32()}},
                 .build = [](Builder& b, const Values& v) {
                   return ops::reduce({v[0], v[1]}, {v[2], v[3]}, {1}, argmax(b.program(), DType::kF32));
                 }});
  out.push_back({.op = "reduce",
                 .label = "by subtraction",
                 .operands = {{f32(3, 5)}, {f32()}},
                 .build = [](Builder& b, const Values& v) {
                   Builder c = b.program().computation("subtract");
                   const Value x = ops::parameter(c, 0, f32());
                   const Value y = ops::parameter(c, 1, f32());
                   const Value difference = ops::subtract(x, y);
                   return ops::reduce({v[0]}, {v[1]}, {1}, b.program().add(std::move(c), difference));
                 }});
}

}  // namespace

std::vector<Sample> contraction_samples() {
  std::vector<Sample> out;
  add_dots(out);
  add_scaled_dots(out);
  add_reductions(out);
  return out;
}

}  // namespace tessera::conformance
