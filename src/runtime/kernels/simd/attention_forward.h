// SPDX-License-Identifier: Apache-2.0
// The forward pass of attention keeps the running maximum and sum of each row (online softmax). Only for the sources of a
// kernel set.
#pragma once

#include "kernels/simd/attention_blocks.h"

namespace tessera::kernels::TESSERA_ISA {
namespace {

template <class Math, class Element>
class Forward {
  using Sum = typename Math::Sum;
  using Word = typename Math::Word;
  using Vector = Vec<Sum>;
  static constexpr std::int64_t kLanes = Lanes<Sum>::kCount;
  static constexpr Sum kHidden = -static_cast<Sum>(__builtin_inf());

 public:
  Forward(const AttentionArgs& args, std::byte* workspace)
      : args_(args), arena_(workspace), q_(args.depth), k_(args.depth), v_(args.value_depth) {
    const std::int64_t key_blocks = blocks_of(args.keys, kKeyBlock);
    k_.take_left(key_blocks * kKeyBlock, arena_);
    v_.take_lines(key_blocks * kKeyBlock, arena_);
    q_.take_right(kRowBlock, arena_);
    scores_ = arena_.take<Sum>(kBlock);
    words_ = arena_.take<Word>(Math::kPair == 1 ? 0 : kBlock / Math::kPair);
    mixed_ = arena_.take<Sum>(kRowBlock * v_.line_stride);
    dropout_ = DropoutBuffers::from(args, arena_);
  }
  [[nodiscard]] std::int64_t bytes() const { return arena_.bytes(); }

  void run() {
    const std::int64_t group = args_.heads / args_.key_heads;
    const std::int64_t seen = keys_seen(args_, 0, args_.rows);  // of a cache, the used part
    for (std::int64_t b = 0; b < args_.batch; ++b)
      for (std::int64_t h = 0; h < args_.key_heads; ++h) {
        const std::int64_t padded = rounded_up(seen, kKeyBlock);
        k_.pack_left(matrix_of<Element>(args_.k, seen, args_.depth, b, h), padded);
        v_.pack_values(matrix_of<Element>(args_.v, seen, args_.value_depth, b, h), padded);
        for (std::int64_t head = h * group; head < (h + 1) * group; ++head)
          for (std::int64_t row = 0; row < args_.rows; row += kRowBlock) run_rows(b, head, row);
      }
  }

 private:
  void run_rows(std::int64_t batch, std::int64_t head, std::int64_t row) {
    BlockPlace place{.batch = batch, .head = head, .row = row};
    place.rows = args_.rows - row < kRowBlock ? args_.rows - row : kRowBlock;
    const auto q = matrix_of<Element>(args_.q, args_.rows, args_.depth, batch, head);
    q_.pack_right(q, row, q_.right);
    for (std::int64_t i = 0; i < kRowBlock; ++i) {
      largest_[i] = kHidden;
      sums_[i] = 0;
    }
    const std::int64_t end = keys_seen(args_, row, place.rows);
    begin_ = first_key_of(args_, row) / kKeyBlock * kKeyBlock;
    for (place.key = begin_; place.key < end; place.key += kKeyBlock) {
      place.keys = end - place.key < kKeyBlock ? end - place.key : kKeyBlock;
      add_block(place);
    }
    write(place, end > begin_);
  }

  void add_block(const BlockPlace& place) {
    const std::int64_t lines = rounded_up(place.keys, kKeyUnit<Math>);
    multiply_scores(k_, q_.right, place, lines, scores_);
    const bool masks = needs_masks(args_, place);
    if (masks) mask_block<Element, Sum>(args_, place, lines, scores_);
    const Sum unit = masks ? Sum{1} : static_cast<Sum>(args_.scale);
    bool shrinks = false;
    for (std::int64_t i = 0; i < place.rows; i += kLanes) shrinks = weigh_lanes(lines, i, unit) || shrinks;
    if (shrinks && place.key > begin_) rescale(place.rows);
    if (args_.dropout_threshold > 0) {
      draw_block(args_, place, lines, dropout_);
      for (std::int64_t j = 0; j < lines; ++j) drop_line(args_, dropout_.low + j * kRowBlock, scores_ + j * kRowBlock);
      words_along_keys<Math>(scores_, lines, words_);
    }
    add_over_keys(v_, words_of<Math>(scores_, words_), place, lines, mixed_, place.key > begin_);
  }

  // Turns the scores of the rows [i, i + kLanes) into weights relative to the new maxima, as words if no dropout
  // follows. Returns whether a maximum grew.
  bool weigh_lanes(std::int64_t lines, std::int64_t i, Sum unit) {
    Sum* const first = scores_ + i;
    Vector top[4] = {all_lanes(kHidden), all_lanes(kHidden), all_lanes(kHidden), all_lanes(kHidden)};
    for (std::int64_t j = 0; j < lines; j += 4)
#pragma GCC unroll 4
      for (std::int64_t u = 0; u < 4; ++u) top[u] = larger_lanes<Sum>(load_vector(first + (j + u) * kRowBlock), top[u]);
    const Vector block_top = larger_lanes<Sum>(larger_lanes<Sum>(top[0], top[1]), larger_lanes<Sum>(top[2], top[3]));
    const Vector before = load_vector(largest_ + i);
    const Vector now = larger_lanes<Sum>(block_top * unit, before);
    const Vector shift = now == all_lanes(kHidden) ? Vector{} : now;
    const Vector shrink = exp_lanes(before - shift);
    const auto weigh = [&](std::int64_t j) { return exp_lanes(load_vector(first + j * kRowBlock) * unit - shift); };
    const bool to_words = Math::kPair == 2 && args_.dropout_threshold == 0;
    Vector sum[2] = {load_vector(sums_ + i) * shrink, Vector{}};
    for (std::int64_t j = 0; j < lines; j += 2) {
      const Vector weights[2] = {weigh(j), weigh(j + 1)};
      sum[0] += weights[0];
      sum[1] += weights[1];
      if (to_words) {
        if constexpr (Math::kPair == 2)
          store_vector(words_ + j / 2 * kRowBlock + i, Math::rounded(weights[0], weights[1]));
      } else {
        store_vector(first + j * kRowBlock, weights[0]);
        store_vector(first + (j + 1) * kRowBlock, weights[1]);
      }
    }
    store_vector(sums_ + i, sum[0] + sum[1]);
    store_vector(largest_ + i, now);
    store_vector(shrink_ + i, shrink);
    bool grew = false;
    for (std::int64_t lane = 0; lane < kLanes; ++lane) grew = grew || shrink[lane] != Sum{1};
    return grew;
  }

  void rescale(std::int64_t rows) {
    if constexpr (Math::kUsesAmx) {
      for (std::int64_t j = 0; j < v_.line_stride; ++j) {
        Sum* const line = mixed_ + j * kRowBlock;
        for (std::int64_t i = 0; i < rows; i += kLanes)
          store_vector(line + i, load_vector(line + i) * load_vector(shrink_ + i));
      }
    } else {
      for (std::int64_t i = 0; i < rows; ++i) {
        const Vector factor = all_lanes(shrink_[i]);
        Sum* const line = mixed_ + i * v_.line_stride;
        for (std::int64_t j = 0; j < v_.line_stride; j += kLanes)
          store_vector(line + j, load_vector(line + j) * factor);
      }
    }
  }

  void write(const BlockPlace& place, bool any) {
    const std::int64_t first = (place.batch * args_.rows + place.row) * args_.heads + place.head;
    for (std::int64_t i = 0; i < kRowBlock; ++i) {
      const bool seen = i < place.rows && any && sums_[i] != 0;
      factors_[i] = seen ? Sum{1} / sums_[i] : Sum{0};
      if (args_.out[1] != nullptr && i < place.rows)
        static_cast<Sum*>(args_.out[1])[first + i * args_.heads] = seen ? largest_[i] + log_of(sums_[i]) : kHidden;
    }
    if (args_.out[0] == nullptr) return;
    Element* const to = static_cast<Element*>(args_.out[0]) + first * args_.value_depth;
    store_row_sums<Math>(mixed_, v_.line_stride, place.rows, args_.value_depth, factors_, to,
                         args_.heads * args_.value_depth);
  }

  const AttentionArgs& args_;
  Arena arena_;
  Packed<Math> q_, k_, v_;
  std::int64_t begin_ = 0;  // the first key of the rows
  Sum* scores_ = nullptr;   // [kKeyBlock, kRowBlock]
  Word* words_ = nullptr;
  Sum* mixed_ = nullptr;  // the sums of add_over_keys for kRowBlock rows
  DropoutBuffers dropout_;
  alignas(64) Sum largest_[kRowBlock];
  alignas(64) Sum sums_[kRowBlock];
  alignas(64) Sum shrink_[kRowBlock];
  alignas(64) Sum factors_[kRowBlock];
};

}  // namespace
}  // namespace tessera::kernels::TESSERA_ISA
