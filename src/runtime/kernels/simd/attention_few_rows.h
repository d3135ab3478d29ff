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
  static constexpr std::int64_t kKeys = 16;  // of a block; a multiple of all kLanes
  static constexpr Sum kHidden = -static_cast<Sum>(__builtin_inf());

 public:
  static bool takes(const AttentionArgs& args) {
    constexpr std::int64_t kMostRows = 4;
    return args.rows <= kMostRows && args.dropout_threshold == 0 && args.q.column == 1 && args.k.column == 1 &&
           args.v.column == 1;
  }
  FewRows(const AttentionArgs& args, std::byte* workspace)
      : args_(args),
        arena_(workspace),
        line_(rounded_up(args.keys, kKeys)),
        q_line_(rounded_up(args.depth, kLanes)),
        out_line_(rounded_up(args.value_depth, kLanes)) {
    weights_ = arena_.take<Sum>(args.heads * line_);
    q_ = arena_.take<Sum>(args.heads * q_line_);
    mixed_ = arena_.take<Sum>(args.heads * out_line_);
    totals_ = arena_.take<Sum>(args.heads);
    largest_ = arena_.take<Sum>(args.heads);
  }
  [[nodiscard]] std::int64_t bytes() const { return arena_.bytes(); }

  void run() {
    for (std::int64_t b = 0; b < args_.batch; ++b)
      for (std::int64_t i = 0; i < args_.rows; ++i) run_row(b, i);
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

  // The heads of a key are adjacent in memory, so all heads read a block of keys before the next block.
  void run_row(std::int64_t batch, std::int64_t row) {
    const std::int64_t seen = keys_seen(args_, row, 1);
    const std::int64_t first = first_key_of(args_, row) / kKeys * kKeys;
    const std::int64_t group = args_.heads / args_.key_heads;
    for (std::int64_t h = 0; h < args_.heads; ++h) read_query(batch, h, row);
    for (std::int64_t j = first; j < seen; j += kKeys)
      for (std::int64_t h = 0; h < args_.heads; ++h) score_keys(batch, h, h / group, j, seen);
    for (std::int64_t h = 0; h < args_.heads; ++h) weigh(batch, h, row, first, seen);
    for (std::int64_t j = first; j < seen; j += kKeys)
      for (std::int64_t h = 0; h < args_.heads; ++h) mix(batch, h, h / group, j, seen);
    for (std::int64_t h = 0; h < args_.heads; ++h) write((batch * args_.rows + row) * args_.heads + h, h);
  }

  void read_query(std::int64_t batch, std::int64_t head, std::int64_t row) {
    const Element* const from = matrix_of<Element>(args_.q, 0, 0, batch, head).from + row * args_.q.row;
    Sum* const q = q_ + head * q_line_;
    for (std::int64_t d = 0; d < args_.depth; ++d) q[d] = load(from[d]) * static_cast<Sum>(args_.scale);
    for (std::int64_t e = 0; e < out_line_; ++e) mixed_[head * out_line_ + e] = 0;
  }

  // The scores of the keys [first, first + kKeys).
  void score_keys(std::int64_t batch, std::int64_t head, std::int64_t key_head, std::int64_t first, std::int64_t seen) {
    const Element* const k = matrix_of<Element>(args_.k, 0, 0, batch, key_head).from + first * args_.k.row;
    const Sum* const q = q_ + head * q_line_;
    Sum* const scores = weights_ + head * line_ + first;
    const std::int64_t vector_end = args_.depth / kLanes * kLanes;
    const std::int64_t count = seen - first < kKeys ? seen - first : kKeys;
    const std::int64_t step = count == kKeys ? args_.k.row : 0;  // a last, partial block reads one key after the other
    for (std::int64_t start = 0; start < count; start += step == 0 ? 1 : kKeys) {
      const Element* const at = k + start * args_.k.row;
      Vector sums[kKeys] = {};
      for (std::int64_t d = 0; d < vector_end; d += kLanes) {
        const Vector left = load_vector(q + d);
#pragma GCC unroll 16
        for (std::int64_t j = 0; j < kKeys; ++j) sums[j] += left * load_lanes(at + j * step + d);
      }
      for (std::int64_t j = 0; j < (step == 0 ? 1 : kKeys); ++j) {
        Sum score = 0;
        for (std::int64_t d = vector_end; d < args_.depth; ++d) score += q[d] * load(at[j * step + d]);
        scores[start + j] = score + sum_of_lanes(sums[j]);
      }
    }
  }

  // Turns the scores of a head for the keys from `first` on into weights, and adds these up.
  void weigh(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t first, std::int64_t seen) {
    Sum* const scores = weights_ + head * line_;
    const std::int64_t* const s = args_.mask_strides;
    const std::int64_t mask = batch * s[0] + head * s[1] + row * s[2];
    Sum largest = kHidden;
    for (std::int64_t j = first; j < first_key_of(args_, row) && j < seen; ++j) scores[j] = kHidden;
    for (std::int64_t j = first; j < seen; ++j) {
      if (args_.mask != nullptr) scores[j] += mask_number<Element, Sum>(args_, mask + j * s[3]);
      largest = scores[j] > largest || scores[j] != scores[j] ? scores[j] : largest;
    }
    for (std::int64_t j = seen; j < rounded_up(seen, kKeys); ++j) scores[j] = kHidden;
    const Sum shift = largest == kHidden ? Sum{0} : largest;
    Vector sums{};
    for (std::int64_t j = first; j < rounded_up(seen, kLanes); j += kLanes) {
      const Vector weight = exp_lanes(load_vector(scores + j) - shift);
      sums += weight;
      store_vector(scores + j, weight);
    }
    totals_[head] = sum_of_lanes(sums);
    largest_[head] = largest;
  }

  // Adds the values of the keys [first, first + kKeys), times their weights.
  void mix(std::int64_t batch, std::int64_t head, std::int64_t key_head, std::int64_t first, std::int64_t seen) {
    const Element* const v = matrix_of<Element>(args_.v, 0, 0, batch, key_head).from + first * args_.v.row;
    const Sum* const weights = weights_ + head * line_ + first;
    Sum* const mixed = mixed_ + head * out_line_;
    const std::int64_t vector_end = args_.value_depth / kLanes * kLanes;
    const std::int64_t count = seen - first < kKeys ? seen - first : kKeys;
    for (std::int64_t e = 0; e < vector_end; e += kLanes) {
      Vector sum = load_vector(mixed + e);
      for (std::int64_t j = 0; j < count; ++j) sum += weights[j] * load_lanes(v + j * args_.v.row + e);
      store_vector(mixed + e, sum);
    }
    for (std::int64_t e = vector_end; e < args_.value_depth; ++e)
      for (std::int64_t j = 0; j < count; ++j) mixed[e] += weights[j] * load(v[j * args_.v.row + e]);
  }

  void write(std::int64_t line, std::int64_t head) const {
    const Sum total = totals_[head];
    if (args_.out[0] != nullptr) {
      Element* const to = static_cast<Element*>(args_.out[0]) + line * args_.value_depth;
      const Sum* const mixed = mixed_ + head * out_line_;
      for (std::int64_t e = 0; e < args_.value_depth; ++e)
        to[e] = Storer<Element>().store(total == 0 ? Sum{0} : mixed[e] / total);
    }
    if (args_.out[1] != nullptr)
      static_cast<Sum*>(args_.out[1])[line] = total == 0 ? kHidden : largest_[head] + log_of(total);
  }

  const AttentionArgs& args_;
  Arena arena_;
  std::int64_t line_, q_line_, out_line_;
  Sum* weights_ = nullptr;  // [heads, keys]
  Sum* q_ = nullptr;        // [heads, depth], times the scale
  Sum* mixed_ = nullptr;    // [heads, value depth]
  Sum* totals_ = nullptr;
  Sum* largest_ = nullptr;
};

}  // namespace
}  // namespace tessera::kernels::TESSERA_ISA
