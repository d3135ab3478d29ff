// SPDX-License-Identifier: Apache-2.0
// Attention of a few rows, as in a step of generation: reads keys and values in place, because each is used only once
// or a few times. Only for the sources of a kernel set.
#pragma once

#include "kernels/simd/attention_blocks.h"

namespace tessera::kernels::TESSERA_ISA {
namespace {

template <class Element, class Sum>
class FewRows {
  using Vector = Vec<Sum>;
  static constexpr std::int64_t kLanes = Lanes<Sum>::kCount;
  static constexpr Sum kHidden = -static_cast<Sum>(__builtin_inf());

 public:
  static bool takes(const AttentionArgs& args) {
    constexpr std::int64_t kMostRows = 4;
    return args.rows <= kMostRows && args.dropout_threshold == 0 && args.q.column == 1 && args.k.column == 1 &&
           args.v.column == 1;
  }
  FewRows(const AttentionArgs& args, std::byte* workspace) : args_(args), arena_(workspace) {
    weights_ = arena_.take<Sum>(rounded_up(args.keys, kLanes));
    q_ = arena_.take<Sum>(rounded_up(args.depth, kLanes));
    mixed_ = arena_.take<Sum>(rounded_up(args.value_depth, kLanes));
  }
  [[nodiscard]] std::int64_t bytes() const { return arena_.bytes(); }

  void run() {
    const std::int64_t group = args_.heads / args_.key_heads;
    for (std::int64_t b = 0; b < args_.batch; ++b)
      for (std::int64_t h = 0; h < args_.heads; ++h)
        for (std::int64_t i = 0; i < args_.rows; ++i) run_row(b, h, h / group, i);
  }

 private:
  static Vector load_lanes(const Element* from) {
    if constexpr (sizeof(Element) == sizeof(Sum)) {
      return load_vector(from);
    } else if constexpr (kDTypeOf<Element> == DType::kBF16) {
      return widened_lanes(from);
    } else {
      Vector out;
      for (std::int64_t i = 0; i < kLanes; ++i) out[i] = load(from[i]);
      return out;
    }
  }
  static Sum sum_of_lanes(Vector x) {
    Sum out = 0;
    for (std::int64_t i = 0; i < kLanes; ++i) out += x[i];
    return out;
  }

  void run_row(std::int64_t batch, std::int64_t head, std::int64_t key_head, std::int64_t row) {
    const std::int64_t seen = keys_seen(args_, row, 1);
    const Element* const q = matrix_of<Element>(args_.q, 0, 0, batch, head).from + row * args_.q.row;
    for (std::int64_t d = 0; d < args_.depth; ++d) q_[d] = load(q[d]) * static_cast<Sum>(args_.scale);
    const Sum largest = score_keys(batch, head, key_head, row, seen);
    const Sum total = largest == kHidden ? Sum{0} : weigh(seen, largest);
    for (std::int64_t e = 0; e < args_.value_depth; ++e) mixed_[e] = 0;
    if (total != 0) mix(batch, key_head, seen);
    const std::int64_t line = (batch * args_.rows + row) * args_.heads + head;
    if (args_.out[0] != nullptr) {
      Element* const to = static_cast<Element*>(args_.out[0]) + line * args_.value_depth;
      const Sum factor = total == 0 ? Sum{0} : Sum{1} / total;
      for (std::int64_t e = 0; e < args_.value_depth; ++e) to[e] = Storer<Element>().store(mixed_[e] * factor);
    }
    if (args_.out[1] != nullptr) static_cast<Sum*>(args_.out[1])[line] = total == 0 ? kHidden : largest + log_of(total);
  }

  // Writes the scores. Returns the largest.
  Sum score_keys(std::int64_t batch, std::int64_t head, std::int64_t key_head, std::int64_t row, std::int64_t seen) {
    const Element* k = matrix_of<Element>(args_.k, 0, 0, batch, key_head).from;
    const std::int64_t whole = args_.depth / kLanes * kLanes;
    const std::int64_t* const s = args_.mask_strides;
    std::int64_t mask = batch * s[0] + head * s[1] + row * s[2];
    Sum largest = kHidden;
    for (std::int64_t j = 0; j < seen; ++j, k += args_.k.row, mask += s[3]) {
      Vector sums{};
      for (std::int64_t d = 0; d < whole; d += kLanes) sums += load_vector(q_ + d) * load_lanes(k + d);
      Sum score = sum_of_lanes(sums);
      for (std::int64_t d = whole; d < args_.depth; ++d) score += q_[d] * load(k[d]);
      if (args_.mask != nullptr) score += mask_number<Element, Sum>(args_, mask);
      weights_[j] = score;
      largest = score > largest || score != score ? score : largest;
    }
    return largest;
  }

  // Turns the scores into weights. Returns their sum.
  Sum weigh(std::int64_t seen, Sum largest) {
    for (std::int64_t j = seen; j < rounded_up(seen, kLanes); ++j) weights_[j] = kHidden;
    Vector sums{};
    for (std::int64_t j = 0; j < seen; j += kLanes) {
      const Vector weight = exp_lanes(load_vector(weights_ + j) - largest);
      sums += weight;
      store_vector(weights_ + j, weight);
    }
    return sum_of_lanes(sums);
  }

  void mix(std::int64_t batch, std::int64_t key_head, std::int64_t seen) {
    const Element* v = matrix_of<Element>(args_.v, 0, 0, batch, key_head).from;
    const std::int64_t whole = args_.value_depth / kLanes * kLanes;
    for (std::int64_t j = 0; j < seen; ++j, v += args_.v.row) {
      const Vector weight = all_lanes(weights_[j]);
      for (std::int64_t e = 0; e < whole; e += kLanes)
        store_vector(mixed_ + e, load_vector(mixed_ + e) + weight * load_lanes(v + e));
      for (std::int64_t e = whole; e < args_.value_depth; ++e) mixed_[e] += weights_[j] * load(v[e]);
    }
  }

  const AttentionArgs& args_;
  Arena arena_;
  Sum* weights_ = nullptr;  // of the keys
  Sum* q_ = nullptr;        // times the scale
  Sum* mixed_ = nullptr;
};

}  // namespace
}  // namespace tessera::kernels::TESSERA_ISA
