// SPDX-License-Identifier: Apache-2.0
// The reference evaluation of attention and attention-backward: all sums in f64, one score after the other.
#include <algorithm>
#include <cmath>
#include <limits>

#include "attention_support.h"
#include "tessera/ops/rows.h"
#include "wide.h"

namespace tessera::rows {
namespace {

// The scores of an instruction.
class AttentionScores {
 public:
  explicit AttentionScores(const EvalContext& context)
      : context_(context),
        form_(attention_form(context.view)),
        q_(widened<double>(context.operands[0])),
        k_(widened<double>(context.operands[1])),
        v_(widened<double>(context.operands[2])) {
    if (form_.offset >= 0) offset_ = element_as_int(at(context.operands, form_.offset), 0);
    const AttentionAttributes& a = form_.attributes;
    complete_ = a.dropout_dims.empty() ? Dims{form_.heads, form_.rows, form_.keys} : a.dropout_dims;
    if (form_.start >= 0)
      for (int d = 0; d < 4; ++d) at(start_, d) = element_as_int(at(context.operands, form_.start), d);
    threshold_ = std::ceil(static_cast<double>(static_cast<float>(a.dropout)) * 0x1p24);
  }
  [[nodiscard]] const AttentionForm& form() const { return form_; }
  // The places of the first elements of a row of q (or of its output, with another depth) and of a key.
  [[nodiscard]] std::int64_t row(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return (b * form_.rows + i) * form_.heads + h;
  }
  [[nodiscard]] std::int64_t key(std::int64_t b, std::int64_t h, std::int64_t j) const {
    return (b * form_.keys + j) * form_.key_heads + h / form_.group();
  }
  [[nodiscard]] const double* q(std::int64_t row) const { return q_.data() + row * form_.depth; }
  [[nodiscard]] const double* k(std::int64_t key) const { return k_.data() + key * form_.depth; }
  [[nodiscard]] const double* v(std::int64_t key) const { return v_.data() + key * form_.value_depth; }

  // -inf for a hidden key.
  [[nodiscard]] double score(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    constexpr double kHidden = -std::numeric_limits<double>::infinity();
    if (form_.attributes.causal && j > i + offset_) return kHidden;
    if (form_.attributes.window > 0 && j <= i + offset_ - form_.attributes.window) return kHidden;
    double sum = 0;
    const double* const a = q(row(b, h, i));
    const double* const c = k(key(b, h, j));
    for (std::int64_t d = 0; d < form_.depth; ++d) sum += a[d] * c[d];
    sum *= form_.attributes.scale;
    if (form_.mask < 0) return sum;
    const Literal& mask = at(context_.operands, form_.mask);
    const Dims index{b, h, i, j};
    std::int64_t place = 0;
    for (int d = 0; d < 4; ++d) place = place * mask.type().dim(d) + (mask.type().dim(d) == 1 ? 0 : at(index, d));
    const double given = element_as_double(mask, place);
    if (mask.type().dtype() == DType::kPred) return given != 0 ? sum : kHidden;
    return sum + given;
  }
  // 0, or the factor of a probability that dropout keeps: the bits of ops::random_bits for the complete scores.
  [[nodiscard]] double kept(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const double p = form_.attributes.dropout;
    if (p == 0) return 1;
    const std::int64_t index =
        (((b + start_[0]) * complete_[0] + h + start_[1]) * complete_[1] + i + start_[2]) * complete_[2] + j +
        start_[3];
    const auto key = at(context_.operands, form_.key).data<std::uint32_t>();
    auto low = static_cast<std::uint32_t>(index);
    std::uint32_t high = key[1] + static_cast<std::uint32_t>(static_cast<std::uint64_t>(index) >> 32U);
    std::uint32_t round_key = key[0];
    for (int round = 0; round < 10; ++round, round_key += 0x9E3779B9U) {  // Philox 2x32 (Salmon et al., 2011)
      const std::uint64_t wide = std::uint64_t{low} * 0xD256D193U;
      low = static_cast<std::uint32_t>(wide >> 32U) ^ high ^ round_key;
      high = static_cast<std::uint32_t>(wide);
    }
    return static_cast<double>(low >> 8U) >= threshold_ ? 1 / (1 - p) : 0;
  }

  template <class F>
  void for_each_row(F&& f) const {
    for (std::int64_t b = 0; b < form_.batch; ++b)
      for (std::int64_t h = 0; h < form_.heads; ++h)
        for (std::int64_t i = 0; i < form_.rows; ++i) f(b, h, i);
  }

 private:
  const EvalContext& context_;
  AttentionForm form_;
  std::vector<double> q_, k_, v_;
  std::int64_t offset_ = 0;
  Dims complete_;
  Dims start_{0, 0, 0, 0};
  double threshold_ = 0;
};

Literal rounded(const std::vector<double>& sums, const Type& type) {
  Literal out(type);
  narrow(sums, out);
  return out;
}
std::vector<double> zeros_of(const Type& type) {
  return std::vector<double>(static_cast<std::size_t>(type.element_count()));
}

}  // namespace

Literal evaluate_attention(const EvalContext& context) {
  const AttentionScores scores(context);
  const AttentionForm& form = scores.form();
  const auto& types = context.view.result.elements();
  std::vector<double> output = zeros_of(types[0]);
  std::vector<double> log_sums = zeros_of(types[1]);
  std::vector<double> line(static_cast<std::size_t>(form.keys));
  scores.for_each_row([&](std::int64_t b, std::int64_t h, std::int64_t i) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const std::int64_t row = scores.row(b, h, i);
    double largest = -kInfinity;
    for (std::int64_t j = 0; j < form.keys; ++j) {
      at(line, j) = scores.score(b, h, i, j);
      largest = std::isnan(at(line, j)) ? at(line, j) : std::max(largest, at(line, j));
    }
    at(log_sums, row) = -kInfinity;
    if (largest == -kInfinity) return;
    double total = 0;
    for (const double score : line) total += std::exp(score - largest);
    at(log_sums, row) = largest + std::log(total);
    double* const out = output.data() + row * form.value_depth;
    for (std::int64_t j = 0; j < form.keys; ++j) {
      const double weight = std::exp(at(line, j) - largest) / total * scores.kept(b, h, i, j);
      const double* const v = scores.v(scores.key(b, h, j));
      for (std::int64_t e = 0; weight != 0 && e < form.value_depth; ++e) out[e] += weight * v[e];
    }
  });
  return Literal::tuple({rounded(output, types[0]), rounded(log_sums, types[1])});
}

Literal evaluate_attention_backward(const EvalContext& context) {
  const AttentionScores scores(context);
  const AttentionForm& form = scores.form();
  const auto& types = context.view.result.elements();
  std::vector<double> d_q = zeros_of(types[0]);
  std::vector<double> d_k = zeros_of(types[1]);
  std::vector<double> d_v = zeros_of(types[2]);
  const std::vector<double> d_output = widened<double>(context.operands[3]);
  scores.for_each_row([&](std::int64_t b, std::int64_t h, std::int64_t i) {
    const std::int64_t row = scores.row(b, h, i);
    const double log_sum = element_as_double(context.operands[4], row);
    const double delta = element_as_double(context.operands[5], row);
    const double* const d_out = d_output.data() + row * form.value_depth;
    if (log_sum == -std::numeric_limits<double>::infinity()) return;
    for (std::int64_t j = 0; j < form.keys; ++j) {
      const std::int64_t key = scores.key(b, h, j);
      // No score is larger than the log-sum-exp, except in padding.
      const double weight = std::exp(std::min(scores.score(b, h, i, j) - log_sum, 0.0));
      const double kept = scores.kept(b, h, i, j);
      double d_weight = 0;
      for (std::int64_t e = 0; e < form.value_depth; ++e) {
        d_weight += d_out[e] * scores.v(key)[e] * kept;
        at(d_v, key * form.value_depth + e) += weight * kept * d_out[e];
      }
      const double d_score = weight * (d_weight - delta) * form.attributes.scale;
      for (std::int64_t d = 0; d < form.depth; ++d) {
        at(d_q, row * form.depth + d) += d_score * scores.k(key)[d];
        at(d_k, key * form.depth + d) += d_score * scores.q(row)[d];
      }
    }
  });
  return Literal::tuple({rounded(d_q, types[0]), rounded(d_k, types[1]), rounded(d_v, types[2])});
}

}  // namespace tessera::rows
