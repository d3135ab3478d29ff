// SPDX-License-Identifier: Apache-2.0
// attention and attention-backward by ops of HLO, with all scores in memory: for other compilers, and for the gradient
// of an additive mask, which is as large as the mask.
#include <cmath>
#include <limits>

#include "attention_support.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera::rows {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Values [batch, heads, rows, keys] of one instruction, in the type of sums.
class PlainAttention {
 public:
  PlainAttention(const AttentionForm& form, const std::vector<Value>& operands)
      : form_(form),
        options_(attention_options(form, operands)),
        builder_(*operands[0].builder),
        dtype_(attention_sum_type(operands[0].type().dtype())),
        q_(wide(operands[0])),
        k_(for_each_head(operands[1])),
        v_(for_each_head(operands[2])) {}

  [[nodiscard]] Dims dims() const { return {form_.batch, form_.heads, form_.rows, form_.keys}; }
  [[nodiscard]] Value wide(const Value& x) const { return ops::convert(x, dtype_); }
  [[nodiscard]] Value constant(const Dims& dims, double value) const {
    return ops::full(builder_, Type::array(dtype_, dims), value);
  }
  [[nodiscard]] const Value& q() const { return q_; }
  [[nodiscard]] const Value& k() const { return k_; }
  [[nodiscard]] const Value& v() const { return v_; }

  /// lhs [b,t,h,x], rhs [b,s,h,x] -> [b,h,t,s].
  [[nodiscard]] static Value products(const Value& lhs, const Value& rhs) {
    return ops::dot(
        lhs, rhs,
        {.lhs_batch_dims = {0, 2}, .lhs_contracting_dims = {3}, .rhs_batch_dims = {0, 2}, .rhs_contracting_dims = {3}});
  }
  /// Sums over `summed` (2: rows, 3: keys) of the scores: [b,h,t,s] and [b,t or s,h,x] -> [b, the other, h, x].
  [[nodiscard]] static Value mixed(const Value& scores, int summed, const Value& x) {
    const Value out = ops::dot(scores, x,
                               {.lhs_batch_dims = {0, 1},
                                .lhs_contracting_dims = {summed},
                                .rhs_batch_dims = {0, 2},
                                .rhs_contracting_dims = {1}});
    return ops::transpose(out, {0, 2, 1, 3});
  }
  /// [b,h,t] repeated along the keys.
  [[nodiscard]] Value over_keys(const Value& x) const { return ops::broadcast(x, dims(), {0, 1, 2}); }

  [[nodiscard]] Value scores() const {
    const Value products = PlainAttention::products(q_, k_);
    Value out = ops::multiply(products, constant(dims(), options_.scale));
    if (!options_.mask.is_null()) out = masked(out, options_.mask);
    return options_.causal ? ops::select(seen(), out, constant(dims(), -kInfinity)) : out;
  }
  /// exp(scores - log_sum) for log_sum [b,t,h]; 0 in rows without visible keys.
  [[nodiscard]] Value weights(const Value& log_sum) const {
    const Value turned = ops::transpose(log_sum, {0, 2, 1});
    const Dims rows{form_.batch, form_.heads, form_.rows};
    const Value hidden = ops::compare(turned, constant(rows, -kInfinity), CompareDirection::kEq);
    const Value shift = ops::select(hidden, constant(rows, kInfinity), turned);
    return ops::exp(ops::minimum(ops::subtract(scores(), over_keys(shift)), constant(dims(), 0)));
  }
  /// x, with dropout.
  [[nodiscard]] Value dropped(const Value& x) const {
    const double p = options_.dropout;
    if (p == 0) return x;
    const Value bits = ops::random_bits_at(options_.key, index());
    const Dims all = dims();
    const Value eight = ops::full(builder_, Type::array(DType::kU32, all), 8);
    const double threshold = std::ceil(static_cast<double>(static_cast<float>(p)) * 0x1p24);
    const Value keep =
        ops::compare(ops::shift_right_logical(bits, eight),
                     ops::full(builder_, Type::array(DType::kU32, all), threshold), CompareDirection::kGe);
    return ops::select(keep, ops::multiply(x, constant(all, 1 / (1 - p))), constant(all, 0));
  }
  /// [b,s,h,x] -> [b,s,g,x]: sums over the heads that share a key head.
  [[nodiscard]] Value for_key_heads(const Value& x) const {
    if (form_.group() == 1) return x;
    const Dims& d = x.type().dims();
    return ops::reduce(ops::reshape(x, {d[0], d[1], form_.key_heads, form_.group(), d[3]}), Reduction::kSum, {3});
  }

 private:
  // [b,s,g,x] -> [b,s,h,x].
  [[nodiscard]] Value for_each_head(const Value& given) const {
    const Value x = wide(given);
    if (form_.group() == 1) return x;
    const Dims& d = x.type().dims();
    const Value repeated = ops::broadcast(x, {d[0], d[1], d[2], form_.group(), d[3]}, {0, 1, 2, 4});
    return ops::reshape(repeated, {d[0], d[1], form_.heads, d[3]});
  }
  [[nodiscard]] Value masked(const Value& scores, const Value& mask) const {
    Dims kept;
    Dims places;
    for (int d = 0; d < 4; ++d)
      if (mask.type().dim(d) != 1) {
        kept.push_back(mask.type().dim(d));
        places.push_back(d);
      }
    const Value all = ops::broadcast(ops::reshape(mask, kept), dims(), places);
    if (mask.type().dtype() == DType::kPred) return ops::select(all, scores, constant(dims(), -kInfinity));
    return ops::add(scores, wide(all));
  }
  [[nodiscard]] Value seen() const {
    const Type type = Type::array(DType::kS32, dims());
    Value row = ops::iota(builder_, type, 2);
    if (!options_.offset.is_null()) row = ops::add(row, ops::splat(options_.offset, dims()));
    const Value key = ops::iota(builder_, type, 3);
    const Value before = ops::compare(row, key, CompareDirection::kGe);
    if (options_.window == 0) return before;
    const Value end = ops::add(key, ops::full(builder_, type, static_cast<double>(options_.window)));
    return ops::logical_and(before, ops::compare(row, end, CompareDirection::kLt));
  }
  // The positions in the complete scores, row-major.
  [[nodiscard]] Value index() const {
    const Type type = Type::array(DType::kU64, dims());
    const Dims complete =
        options_.dropout_dims.empty() ? Dims{form_.heads, form_.rows, form_.keys} : options_.dropout_dims;
    Value out{};
    for (int d = 0; d < 4; ++d) {
      Value position = ops::iota(builder_, type, d);
      if (!options_.start.is_null()) {
        const Value first = ops::reshape(ops::slice_dim(options_.start, 0, d, d + 1), {});
        position = ops::add(position, ops::splat(ops::convert(first, DType::kU64), dims()));
      }
      if (!out.is_null()) out = ops::multiply(out, ops::full(builder_, type, static_cast<double>(at(complete, d - 1))));
      out = out.is_null() ? position : ops::add(out, position);
    }
    return out;
  }

  const AttentionForm& form_;
  ops::AttentionOperands options_;
  Builder& builder_;
  DType dtype_;
  Value q_, k_, v_;
};

}  // namespace

Value attention_in_hlo(const OpView& view, const std::vector<Value>& operands) {
  const AttentionForm form = attention_form(view);
  const PlainAttention plain(form, operands);
  const Value scores = plain.scores();
  const Value largest = ops::reduce(scores, Reduction::kMax, {3});
  const Dims rows = largest.type().dims();
  const Value is_hidden = ops::compare(largest, plain.constant(rows, -kInfinity), CompareDirection::kEq);
  const Value shift = ops::select(is_hidden, plain.constant(rows, 0), largest);
  const Value exponentials = ops::exp(ops::subtract(scores, plain.over_keys(shift)));
  const Value total = ops::reduce(exponentials, Reduction::kSum, {3});
  const Value divisor = ops::select(is_hidden, plain.constant(rows, 1), total);
  const Value weights = ops::divide(exponentials, plain.over_keys(divisor));
  const Value output = PlainAttention::mixed(plain.dropped(weights), 3, plain.v());
  const Value log_sum = ops::transpose(ops::add(shift, ops::log(total)), {0, 2, 1});
  return ops::tuple(*output.builder, {ops::convert(output, view.operands[0].dtype()), log_sum});
}

Value attention_backward_in_hlo(const OpView& view, const std::vector<Value>& operands) {
  const AttentionForm form = attention_form(view);
  const PlainAttention plain(form, operands);
  const Value d_output = plain.wide(operands[3]);
  const Value weights = plain.weights(operands[4]);
  const Value delta = plain.over_keys(ops::transpose(operands[5], {0, 2, 1}));
  const Value d_weights = plain.dropped(PlainAttention::products(d_output, plain.v()));
  const Value d_scores = ops::multiply(ops::multiply(weights, ops::subtract(d_weights, delta)),
                                       plain.constant(plain.dims(), form.attributes.scale));
  const Value d_q = PlainAttention::mixed(d_scores, 3, plain.k());
  const Value d_k = plain.for_key_heads(PlainAttention::mixed(d_scores, 2, plain.q()));
  const Value d_v = plain.for_key_heads(PlainAttention::mixed(plain.dropped(weights), 2, d_output));
  const DType dtype = view.operands[0].dtype();
  return ops::tuple(*d_q.builder, {ops::convert(d_q, dtype), ops::convert(d_k, dtype), ops::convert(d_v, dtype)});
}

Value attention_mask_gradient(const AttentionForm& form, const std::vector<Value>& operands, Value d_output,
                              Value log_sum, Value delta) {
  const PlainAttention plain(form, operands);
  const Value d_weights = plain.dropped(PlainAttention::products(plain.wide(d_output), plain.v()));
  const Value d_scores = ops::multiply(plain.weights(log_sum),
                                       ops::subtract(d_weights, plain.over_keys(ops::transpose(delta, {0, 2, 1}))));
  const Type mask = at(operands, form.mask).type();
  Dims summed;
  for (int d = 0; d < 4; ++d)
    if (mask.dim(d) == 1) summed.push_back(d);
  const Value sum = summed.empty() ? d_scores : ops::reduce(d_scores, Reduction::kSum, summed);
  return ops::convert(ops::reshape(sum, mask.dims()), mask.dtype());
}

}  // namespace tessera::rows
