// SPDX-License-Identifier: Apache-2.0
// A dot of operands with a scale per block.
//
//   %y = f32[3,4] scaled-dot(%x, %w, %a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={1}
//        x f8e4m3fn[3,64], a f8e8m0fnu[3,2]: x[i,k] is multiplied by a[i, k/32]; a scalar scale applies to all
#include "batch_rules.h"
#include "row_support.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/rows.h"

namespace tessera::rows {
namespace {

OpView as_dot(const OpView& view) {
  return {kDot, {view.operands[0], view.operands[1]}, view.result, view.attributes, {}};
}

void check_scale(const Type& operand, const Type& scale, std::string_view side) {
  if (scale.ndim() == 0) return;
  bool fits = scale.ndim() == operand.ndim();
  for (int d = 0; fits && d < scale.ndim(); ++d)
    fits = scale.dim(d) == operand.dim(d) || (scale.dim(d) > 0 && operand.dim(d) % scale.dim(d) == 0);
  require(fits, "the scale {} of {} {} must be a scalar, or divide its dims into blocks", scale, side, operand);
}

Type infer_scaled_dot(const OpView& view) {
  for (int i = 0; i < 4; ++i) array_operand(view, i);
  check_scale(view.operands[0], view.operands[2], "lhs");
  check_scale(view.operands[1], view.operands[3], "rhs");
  return kDot.infer(as_dot(view));
}

Literal scaled(const Literal& x, const Literal& scale) {
  const Dims& dims = x.type().dims();
  const Dims strides = row_major_strides(dims);
  const Dims own = row_major_strides(scale.type().dims());
  Literal out(x.type().with_dtype(DType::kF64));
  for (std::int64_t i = 0; i < x.type().element_count(); ++i) {
    std::int64_t from = 0;
    for (int d = 0; d < scale.type().ndim(); ++d)
      from += i / at(strides, d) % at(dims, d) / (at(dims, d) / scale.type().dim(d)) * at(own, d);
    at(out.mutable_data<double>(), i) = element_as_double(x, i) * element_as_double(scale, from);
  }
  return out;
}

Literal evaluate_scaled_dot(const EvalContext& context) {
  const std::vector<Literal> operands = {scaled(context.operands[0], context.operands[2]),
                                         scaled(context.operands[1], context.operands[3])};
  OpView view = as_dot(context.view);
  view.operands = {operands[0].type(), operands[1].type()};
  return kDot.evaluate({view, operands, context.call, context.partition, context.partition_count});
}

void replace(std::vector<TensorFactors>& tensors, int factor, const DimFactors& by) {
  for (auto& tensor : tensors)
    for (auto& dim : tensor)
      if (dim == DimFactors{factor}) dim = by;
}

// The factors of dot. A factor that scales divide into blocks becomes two: blocks, and positions in them. If it has
// blocks of two sizes, it must be unsharded.
FactorMap factors_scaled_dot(const OpView& view) {
  FactorMap map = kDot.factors(as_dot(view));
  map.operands.resize(4);
  std::vector<std::int64_t> blocks(map.factors.size(), 0);  // by factor of dot; 0 without blocks
  for (int side = 0; side < 2; ++side) {
    const Type& scale = view.operands[static_cast<std::size_t>(side) + 2];
    for (int d = 0; d < scale.ndim(); ++d) {
      const int factor = at(at(map.operands, side), d).empty() ? -1 : at(at(map.operands, side), d).front();
      if (factor < 0 || scale.dim(d) == 1 || scale.dim(d) == view.operands[static_cast<std::size_t>(side)].dim(d))
        continue;
      auto& count = at(blocks, factor);
      if (count != 0 && count != scale.dim(d)) at(map.factors, factor).kind = FactorKind::kBlocked;
      count = scale.dim(d);
    }
  }
  const std::vector<TensorFactors> plain = map.operands;
  std::vector<int> major(blocks.size(), -1);
  for (int f = 0; f < isize(blocks); ++f) {
    if (at(blocks, f) == 0 || at(map.factors, f).kind == FactorKind::kBlocked) continue;
    at(major, f) = map.add(at(blocks, f), at(map.factors, f).kind);
    at(map.factors, f).size /= at(blocks, f);
    replace(map.operands, f, {at(major, f), f});
    replace(map.results, f, {at(major, f), f});
  }
  for (int side = 0; side < 2; ++side) {
    const Type& scale = view.operands[static_cast<std::size_t>(side) + 2];
    for (int d = 0; d < scale.ndim(); ++d) {
      DimFactors dim;
      const bool is_unblocked = scale.dim(d) == view.operands[static_cast<std::size_t>(side)].dim(d);
      if (is_unblocked)
        dim = at(at(map.operands, side), d);
      else if (const int factor = at(at(plain, side), d).front(); scale.dim(d) > 1)
        dim = {at(major, factor) >= 0 ? at(major, factor) : map.add(scale.dim(d), FactorKind::kBlocked)};
      at(map.operands, side + 2).push_back(std::move(dim));
    }
  }
  return map;
}

double flops_scaled_dot(const OpView& view) { return kDot.flops(as_dot(view)); }

}  // namespace

const OpDef kScaledDot{.name = "scaled-dot",
                       .min_operands = 4,
                       .max_operands = 4,
                       .parse = parse_attributes<DotAttributes>,
                       .infer = infer_scaled_dot,
                       .evaluate = evaluate_scaled_dot,
                       .batch = batch_scaled_dot,
                       .factors = factors_scaled_dot,
                       .linearity = linear,
                       .localize = localize_declared,
                       .flops = flops_scaled_dot};

}  // namespace tessera::rows
