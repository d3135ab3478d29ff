// SPDX-License-Identifier: Apache-2.0
// Formulas of what ops expand to.
#include "tessera/ops/expand.h"

#include <algorithm>
#include <array>

#include "rows.h"
#include "tessera/base/text.h"
#include "tessera/ops/batch_norm.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

using Values = std::vector<Value>;

// ---- batch norms ------------------------------------------------------------------------------------------------------

/// x of all dims and what is known per feature, in the type that sums are computed in.
class BatchNorm {
 public:
  BatchNorm(const OpView& view, const Value& x)
      : view_(view), norm_(view.as<BatchNormAttributes>()), dtype_(x.type().dtype()), dims_(x.type().dims()) {
    if (dtype_size(dtype_) < 4) dtype_ = DType::kF32;
    for (int d = 0; d < isize(dims_); ++d)
      if (d != norm_.feature_index) others_.push_back(d);
    const std::int64_t features = at(dims_, static_cast<int>(norm_.feature_index));
    per_feature_ = static_cast<double>(std::max<std::int64_t>(1, x.type().element_count())) /
                   static_cast<double>(std::max<std::int64_t>(1, features));
  }

  [[nodiscard]] Value wide(const Value& x) const { return x.type().dtype() == dtype_ ? x : ops::convert(x, dtype_); }
  [[nodiscard]] Value over_all(const Value& feature) const {
    return ops::broadcast(feature, dims_, {norm_.feature_index});
  }
  [[nodiscard]] Value sum(const Value& x) const { return ops::reduce(x, Reduction::kSum, others_); }
  [[nodiscard]] Value per_element(const Value& sum) const {
    return ops::divide(sum, ops::full(*sum.builder, sum.type(), per_feature_));
  }
  [[nodiscard]] Value centered(const Value& x, const Value& mean) const { return ops::subtract(x, over_all(mean)); }
  [[nodiscard]] Value inverse_deviation(const Value& variance) const {
    return ops::rsqrt(ops::add(variance, ops::full(*variance.builder, variance.type(), norm_.epsilon)));
  }
  // With the types the op has.
  [[nodiscard]] Value results(Values values) const {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const DType given = view_.result.elements()[i].dtype();
      if (values[i].type().dtype() != given) values[i] = ops::convert(values[i], given);
    }
    return ops::tuple(*values.front().builder, values);
  }

 private:
  const OpView& view_;
  const BatchNormAttributes& norm_;
  DType dtype_;
  Dims dims_;
  Dims others_;
  double per_feature_ = 1;
};

Value expanded_training(const OpView& view, const Values& operands) {
  const BatchNorm norm(view, operands[0]);
  const Value x = norm.wide(operands[0]);
  const Value mean = norm.per_element(norm.sum(x));
  const Value centered = norm.centered(x, mean);
  const Value variance = norm.per_element(norm.sum(ops::multiply(centered, centered)));
  const Value factor = ops::multiply(norm.inverse_deviation(variance), norm.wide(operands[1]));
  const Value y = ops::add(ops::multiply(centered, norm.over_all(factor)), norm.over_all(norm.wide(operands[2])));
  return norm.results({y, mean, variance});
}

//   d_x = scale r (d_y - sum(d_y)/n - c r² sum(d_y c)/n)      c = x - mean, r = 1/sqrt(variance + epsilon)
Value expanded_grad(const OpView& view, const Values& operands) {
  const BatchNorm norm(view, operands[0]);
  const Value d_y = norm.wide(operands[4]);
  const Value centered = norm.centered(norm.wide(operands[0]), norm.wide(operands[2]));
  const Value r = norm.inverse_deviation(norm.wide(operands[3]));
  const Value d_sum = norm.sum(d_y);
  const Value d_scale = ops::multiply(norm.sum(ops::multiply(d_y, centered)), r);
  const Value along = ops::multiply(centered, norm.over_all(ops::multiply(norm.per_element(d_scale), r)));
  const Value rest = ops::subtract(ops::subtract(d_y, norm.over_all(norm.per_element(d_sum))), along);
  return norm.results({ops::multiply(rest, norm.over_all(ops::multiply(norm.wide(operands[1]), r))), d_scale, d_sum});
}

// ---- the list ---------------------------------------------------------------------------------------------------------

struct Expansion {
  const OpDef* op;
  Value (*expand)(const OpView&, const Values&);
};

const std::array<Expansion, 2>& expansions() {
  static const std::array<Expansion, 2> all{
      {{&rows::kBatchNormTraining, expanded_training}, {&rows::kBatchNormGrad, expanded_grad}}};
  return all;
}

}  // namespace

bool is_expandable(const OpDef& op) {
  return std::any_of(expansions().begin(), expansions().end(), [&](const Expansion& e) { return e.op == &op; });
}

Value expanded(const OpView& view, const Values& operands) {
  for (const Expansion& expansion : expansions())
    if (expansion.op == &view.op) return expansion.expand(view, operands);
  fail("{} has no other form", view.op.name);
}

}  // namespace tessera
