// SPDX-License-Identifier: Apache-2.0
// Normalization over all dims but one, the feature dim f:
//
//   (y, mean, variance) batch-norm-training(x, scale, offset), epsilon=1e-05, feature_index=1
//   y batch-norm-inference(x, scale, offset, mean, variance), …
//       y = (x - mean) / sqrt(variance + epsilon) * scale + offset
//   (d_x, d_scale, d_offset) batch-norm-grad(x, scale, mean, variance, d_y), …
#include <algorithm>
#include <cmath>

#include "batch_rules.h"
#include "row_support.h"
#include "tessera/ops/batch_norm.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {

namespace rows {
namespace {

const BatchNormAttributes& norm(const OpView& view) { return view.as<BatchNormAttributes>(); }
bool is_grad(const OpView& view) { return view.op.name == "batch-norm-grad"; }

Type infer_batch_norm(const OpView& view) {
  const Type& x = array_operand(view, 0);
  require(is_float(x.dtype()), "takes floating-point elements, got {}", x);
  check_dim(norm(view).feature_index, x.ndim(), "feature_index");
  const Type feature = Type::array(x.dtype(), {x.dim(static_cast<int>(norm(view).feature_index))});
  for (int i = 1; i < isize(view.operands); ++i) {
    const bool has_full_shape = is_grad(view) && i == 4;
    require(at(view.operands, i) == (has_full_shape ? x : feature), "operand {} must be {}, got {}", i,
            has_full_shape ? x : feature, at(view.operands, i));
  }
  if (view.op.name == "batch-norm-inference") return declared_or(view, x);
  return declared_or(view, Type::tuple({x, feature, feature}));
}

// The sums of one feature.
struct Feature {
  double mean = 0;
  double variance = 0;
  double d_sum = 0;     // of d_y
  double d_moment = 0;  // of d_y (x - mean)
};

class Norm {
 public:
  explicit Norm(const EvalContext& context)
      : context_(context), x_(context.operands[0]), epsilon_(norm(context.view).epsilon) {
    const auto f = static_cast<int>(norm(context.view).feature_index);
    stride_ = at(row_major_strides(x_.type().dims()), f);
    features_.resize(static_cast<std::size_t>(x_.type().dim(f)));
    per_feature_ =
        static_cast<double>(x_.type().element_count()) / std::max<double>(1, static_cast<double>(features_.size()));
  }
  [[nodiscard]] std::size_t feature_of(std::int64_t i) const {
    return static_cast<std::size_t>(i / stride_) % features_.size();
  }
  [[nodiscard]] std::int64_t count() const { return x_.type().element_count(); }
  [[nodiscard]] double x(std::int64_t i) const { return element_as_double(x_, i); }
  [[nodiscard]] double given(std::size_t operand, std::size_t feature) const {
    return element_as_double(context_.operands[operand], static_cast<std::int64_t>(feature));
  }
  void take_moments() {
    for (std::int64_t i = 0; i < count(); ++i) features_[feature_of(i)].mean += x(i) / per_feature_;
    for (std::int64_t i = 0; i < count(); ++i) {
      Feature& f = features_[feature_of(i)];
      f.variance += (x(i) - f.mean) * (x(i) - f.mean) / per_feature_;
    }
  }
  void read_moments(std::size_t first) {
    for (std::size_t f = 0; f < features_.size(); ++f) {
      features_[f].mean = given(first, f);
      features_[f].variance = given(first + 1, f);
    }
  }
  [[nodiscard]] double inverse(const Feature& f) const { return 1 / std::sqrt(f.variance + epsilon_); }
  std::vector<Feature>& features() { return features_; }
  [[nodiscard]] double per_feature() const { return per_feature_; }

 private:
  const EvalContext& context_;
  const Literal& x_;
  double epsilon_;
  std::int64_t stride_ = 1;
  double per_feature_ = 1;
  std::vector<Feature> features_;
};

template <class F>
Literal made(const Type& type, F&& f) {
  Literal out(type);
  visit_dtype(type.dtype(), [&]<class T>() {
    if constexpr (is_float(kDTypeOf<T>)) {
      auto to = out.mutable_data<T>();
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<T>(f(i));
    }
  });
  return out;
}

Literal normalised(Norm& n, const Type& type) {
  return made(type, [&](std::size_t i) {
    const auto place = static_cast<std::int64_t>(i);
    const std::size_t which = n.feature_of(place);
    const Feature& f = n.features()[which];
    return (n.x(place) - f.mean) * n.inverse(f) * n.given(1, which) + n.given(2, which);
  });
}

Literal evaluate_inference(const EvalContext& context) {
  Norm n(context);
  n.read_moments(3);
  return normalised(n, context.view.result);
}

Literal evaluate_training(const EvalContext& context) {
  Norm n(context);
  n.take_moments();
  const auto& types = context.view.result.elements();
  return Literal::tuple({normalised(n, types[0]), made(types[1], [&](std::size_t f) { return n.features()[f].mean; }),
                         made(types[2], [&](std::size_t f) { return n.features()[f].variance; })});
}

Literal evaluate_grad(const EvalContext& context) {
  Norm n(context);
  n.read_moments(2);
  const Literal& d_y = context.operands[4];
  for (std::int64_t i = 0; i < n.count(); ++i) {
    Feature& f = n.features()[n.feature_of(i)];
    f.d_sum += element_as_double(d_y, i);
    f.d_moment += element_as_double(d_y, i) * (n.x(i) - f.mean);
  }
  const auto& types = context.view.result.elements();
  Literal d_x = made(types[0], [&](std::size_t i) {
    const auto place = static_cast<std::int64_t>(i);
    const std::size_t which = n.feature_of(place);
    const Feature& f = n.features()[which];
    const double r = n.inverse(f);
    const double moment = (n.x(place) - f.mean) * r * r * f.d_moment;
    return n.given(1, which) * r * (element_as_double(d_y, place) - (f.d_sum + moment) / n.per_feature());
  });
  return Literal::tuple(
      {std::move(d_x),
       made(types[1], [&](std::size_t f) { return n.features()[f].d_moment * n.inverse(n.features()[f]); }),
       made(types[2], [&](std::size_t f) { return n.features()[f].d_sum; })});
}

// The feature dim passes. An op that computes moments needs all other dims unsharded.
FactorMap factors_batch_norm(const OpView& view) {
  const auto feature = static_cast<int>(norm(view).feature_index);
  const bool elementwise = view.op.name == "batch-norm-inference";
  FactorMap map;
  const TensorFactors x = add_factors(map, view.operands[0], elementwise ? FactorKind::kPass : FactorKind::kBlocked);
  at(map.factors, feature).kind = FactorKind::kPass;
  const TensorFactors one{at(x, feature)};
  for (const Type& operand : view.operands) map.operands.push_back(operand.ndim() == 1 && isize(x) != 1 ? one : x);
  for (const Type& leaf : view.result.leaves()) map.results.push_back(leaf.ndim() == 1 && isize(x) != 1 ? one : x);
  return map;
}

// ---- expansion: sums that can be sharded ----------------------------------------------------------------------------

// Expands the op into others. x has all dims, other values have the feature dim. It computes in the type of sums: f32
// for 16-bit types.
class Expansion {
 public:
  Expansion(const OpView& view, const Value& x)
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
  // Converts the results to the types of the op.
  [[nodiscard]] Value results(std::vector<Value> values) const {
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

Value expanded_training(const OpView& view, const std::vector<Value>& operands) {
  const Expansion norm(view, operands[0]);
  const Value x = norm.wide(operands[0]);
  const Value mean = norm.per_element(norm.sum(x));
  const Value centered = norm.centered(x, mean);
  const Value variance = norm.per_element(norm.sum(ops::multiply(centered, centered)));
  const Value factor = ops::multiply(norm.inverse_deviation(variance), norm.wide(operands[1]));
  const Value y = ops::add(ops::multiply(centered, norm.over_all(factor)), norm.over_all(norm.wide(operands[2])));
  return norm.results({y, mean, variance});
}

//   d_x = scale r (d_y - sum(d_y)/n - c r² sum(d_y c)/n)      c = x - mean, r = 1/sqrt(variance + epsilon)
Value expanded_grad(const OpView& view, const std::vector<Value>& operands) {
  const Expansion norm(view, operands[0]);
  const Value d_y = norm.wide(operands[4]);
  const Value centered = norm.centered(norm.wide(operands[0]), norm.wide(operands[2]));
  const Value r = norm.inverse_deviation(norm.wide(operands[3]));
  const Value d_sum = norm.sum(d_y);
  const Value d_scale = ops::multiply(norm.sum(ops::multiply(d_y, centered)), r);
  const Value along = ops::multiply(centered, norm.over_all(ops::multiply(norm.per_element(d_scale), r)));
  const Value rest = ops::subtract(ops::subtract(d_y, norm.over_all(norm.per_element(d_sum))), along);
  return norm.results({ops::multiply(rest, norm.over_all(ops::multiply(norm.wide(operands[1]), r))), d_scale, d_sum});
}

// The operations of the expansion.
double flops_batch_norm(const OpView& view) {
  const double each = is_grad(view) ? 8 : view.op.name == "batch-norm-training" ? 6 : 4;
  return each * static_cast<double>(view.operands[0].element_count());
}

OpDef row(std::string_view name, int operands, Literal (*evaluate)(const EvalContext&),
          Value (*expand)(const OpView&, const std::vector<Value>&) = nullptr) {
  return {.name = name,
          .min_operands = operands,
          .max_operands = operands,
          .parse = parse_attributes<BatchNormAttributes>,
          .infer = infer_batch_norm,
          .evaluate = evaluate,
          .batch = batch_batch_norm,
          .factors = factors_batch_norm,
          .expand = expand,
          .flops = flops_batch_norm};
}

}  // namespace

const OpDef kBatchNormTraining = row("batch-norm-training", 3, evaluate_training, expanded_training);
const OpDef kBatchNormInference = row("batch-norm-inference", 5, evaluate_inference);
const OpDef kBatchNormGrad = row("batch-norm-grad", 5, evaluate_grad, expanded_grad);

}  // namespace rows
}  // namespace tessera
