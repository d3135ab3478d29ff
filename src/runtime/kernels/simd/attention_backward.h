// SPDX-License-Identifier: Apache-2.0
// The backward pass of attention computes the scores again from queries, keys and the log-sum-exp. Only for the sources
// of a kernel set.
#pragma once

#include "kernels/simd/attention_blocks.h"

namespace tessera::kernels::TESSERA_ISA {
namespace {

template <class Math, class Element>
class Backward {
  using Sum = typename Math::Sum;
  using Word = typename Math::Word;
  using Vector = Vec<Sum>;
  static constexpr std::int64_t kLanes = Lanes<Sum>::kCount;
  static constexpr std::int64_t kRowUnit = Math::kUsesAmx ? 32 : Math::kPair;  // of the rows of a block

 public:
  Backward(const AttentionArgs& args, std::byte* workspace)
      : args_(args),
        arena_(workspace),
        q_(args.depth),
        k_(args.depth),
        v_(args.value_depth),
        d_output_(args.value_depth) {
    padded_keys_ = rounded_up(args.keys, kKeyBlock);
    padded_rows_ = rounded_up(args.rows, kRowBlock);
    k_.take_left(padded_keys_, arena_);
    k_.take_lines(padded_keys_, arena_);
    v_.take_left(padded_keys_, arena_);
    q_.take_right(padded_rows_, arena_);
    q_.take_lines(padded_rows_, arena_);
    d_output_.take_right(padded_rows_, arena_);
    d_output_.take_lines(padded_rows_, arena_);
    log_sums_ = arena_.take<Sum>(padded_rows_);
    deltas_ = arena_.take<Sum>(padded_rows_);
    d_q_ = arena_.take<Sum>(padded_rows_ * q_.line_stride);
    d_k_ = arena_.take<Sum>(padded_keys_ * k_.line_stride);
    d_v_ = arena_.take<Sum>(padded_keys_ * v_.line_stride);
    weights_ = arena_.take<Sum>(kBlock);
    d_scores_ = arena_.take<Sum>(kBlock);
    for (Word** words : {&weight_words_, &row_words_, &key_words_})
      *words = arena_.take<Word>(Math::kPair == 1 ? 0 : kBlock / Math::kPair);
    dropout_ = DropoutBuffers::from(args, arena_);
  }
  [[nodiscard]] std::int64_t bytes() const { return arena_.bytes(); }

  void run() {
    const std::int64_t group = args_.heads / args_.key_heads;
    for (std::int64_t b = 0; b < args_.batch; ++b)
      for (std::int64_t h = 0; h < args_.key_heads; ++h) {
        const auto k = matrix_of<Element>(args_.k, args_.keys, args_.depth, b, h);
        k_.pack_left(k, padded_keys_);
        k_.pack_values(k, padded_keys_);
        v_.pack_left(matrix_of<Element>(args_.v, args_.keys, args_.value_depth, b, h), padded_keys_);
        clear(d_k_, padded_keys_ * k_.line_stride);
        clear(d_v_, padded_keys_ * v_.line_stride);
        for (std::int64_t head = h * group; head < (h + 1) * group; ++head) run_head(b, head);
        const Sum scale = static_cast<Sum>(args_.scale);
        write(1, d_k_, k_.line_stride, args_.keys, args_.key_heads, args_.depth, b, h, scale);
        write(2, d_v_, v_.line_stride, args_.keys, args_.key_heads, args_.value_depth, b, h, 1);
      }
  }

 private:
  static void clear(Sum* numbers, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) numbers[i] = 0;
  }

  void run_head(std::int64_t batch, std::int64_t head) {
    const auto q = matrix_of<Element>(args_.q, args_.rows, args_.depth, batch, head);
    const auto d_output = matrix_of<Element>(args_.d_output, args_.rows, args_.value_depth, batch, head);
    q_.pack_all_right(q);
    q_.pack_lines(q, padded_rows_);
    d_output_.pack_all_right(d_output);
    d_output_.pack_lines(d_output, padded_rows_);
    read_sums(batch, head);
    clear(d_q_, padded_rows_ * q_.line_stride);
    BlockPlace place{.batch = batch, .head = head};
    for (place.key = 0; place.key < args_.keys; place.key += kKeyBlock) {
      const std::int64_t first = first_row_of(args_, place.key) / kRowBlock * kRowBlock;
      const std::int64_t end = end_row_of(args_, place.key + kKeyBlock - 1);
      for (place.row = first; place.row < end; place.row += kRowBlock) {
        place.rows = args_.rows - place.row < kRowBlock ? args_.rows - place.row : kRowBlock;
        const std::int64_t keys = keys_seen(args_, place.row, place.rows) - place.key;
        place.keys = keys < kKeyBlock ? keys : kKeyBlock;
        if (keys > 0) add_block(place);
      }
    }
    write_d_q(batch, head);
  }

  // Rows without visible keys, and those past the end, get the log-sum-exp inf and so weights of 0.
  void read_sums(std::int64_t batch, std::int64_t head) {
    const auto read = [&](const AttentionArray& array, std::int64_t i) {
      return static_cast<const Sum*>(array.data)[batch * array.batch + i * array.row + head * array.head];
    };
    constexpr Sum kInfinity = static_cast<Sum>(__builtin_inf());
    for (std::int64_t i = 0; i < padded_rows_; ++i) {
      const Sum log_sum = i < args_.rows ? read(args_.log_sum, i) : kInfinity;
      log_sums_[i] = log_sum == -kInfinity ? kInfinity : log_sum;
      deltas_[i] = i < args_.rows ? read(args_.delta, i) : Sum{0};
    }
  }

  void add_block(const BlockPlace& place) {
    const std::int64_t lines = rounded_up(place.keys, kKeyUnit<Math>);
    multiply_scores(k_, q_.right_at(place.row), place, lines, weights_);
    multiply_scores(v_, d_output_.right_at(place.row), place, lines, d_scores_);
    const bool masks = needs_masks(args_, place);
    if (masks) mask_block<Element, Sum>(args_, place, lines, weights_);
    const bool drops = args_.dropout_threshold > 0;
    if (drops) draw_block(args_, place, lines, dropout_);
    for (std::int64_t j = 0; j < lines; ++j) {
      const std::uint32_t* const bits = drops ? dropout_.low + j * kRowBlock : nullptr;
      differentiate_line(place, j, masks ? Sum{1} : static_cast<Sum>(args_.scale), bits);
    }
    add_products(place, lines);
  }

  // Turns a line of scores and of gradients of weights into weights (with dropout) and gradients of scores.
  void differentiate_line(const BlockPlace& place, std::int64_t j, Sum unit, const std::uint32_t* bits) {
    Sum* const weights = weights_ + j * kRowBlock;
    Sum* const d_scores = d_scores_ + j * kRowBlock;
    if (bits != nullptr) drop_line(args_, bits, d_scores);
    const std::int64_t columns = rounded_up(place.rows, kLanes);
    for (std::int64_t i = 0; i < columns; i += kLanes) {
      const Vector log_sum = load_vector(log_sums_ + place.row + i);
      const Vector exponent = smaller_lanes<Sum>(Vector{}, load_vector(weights + i) * unit - log_sum);
      const Vector weight = exp_lanes(exponent);
      const Vector delta = load_vector(deltas_ + place.row + i);
      store_vector(d_scores + i, weight * (load_vector(d_scores + i) - delta));
      store_vector(weights + i, weight);
    }
    for (std::int64_t i = columns; i < kRowBlock; ++i) weights[i] = d_scores[i] = 0;
    if (bits != nullptr) drop_line(args_, bits, weights);
  }

  void add_products(const BlockPlace& place, std::int64_t lines) {
    constexpr std::int64_t kLine = kRowBlock / Math::kPair;
    words_along_rows<Math>(weights_, lines, weight_words_);
    words_along_rows<Math>(d_scores_, lines, row_words_);
    words_along_keys<Math>(d_scores_, lines, key_words_);
    const std::int64_t row_words = rounded_up(place.rows, kRowUnit) / Math::kPair;
    multiply<Math, kLine, 1>({.a = words_of<Math>(weights_, weight_words_),
                              .b = d_output_.lines_at(place.row),
                              .out = d_v_ + place.key * v_.line_stride,
                              .rows = place.keys,
                              .columns = v_.line_stride,
                              .depth = row_words,
                              .b_stride = d_output_.line_stride,
                              .out_stride = v_.line_stride,
                              .adds = true,
                              .a_stride = kLine});
    multiply<Math, kLine, 1>({.a = words_of<Math>(d_scores_, row_words_),
                              .b = q_.lines_at(place.row),
                              .out = d_k_ + place.key * k_.line_stride,
                              .rows = place.keys,
                              .columns = k_.line_stride,
                              .depth = row_words,
                              .b_stride = q_.line_stride,
                              .out_stride = k_.line_stride,
                              .adds = true,
                              .a_stride = kLine});
    add_over_keys(k_, words_of<Math>(d_scores_, key_words_), place, lines, d_q_ + place.row * q_.line_stride, true);
  }

  void write_d_q(std::int64_t batch, std::int64_t head) const {
    if (args_.out[0] == nullptr) return;
    Sum factors[kRowBlock];
    for (Sum& factor : factors) factor = static_cast<Sum>(args_.scale);
    const std::int64_t line = args_.heads * args_.depth;
    for (std::int64_t row = 0; row < args_.rows; row += kRowBlock) {
      const std::int64_t rows = args_.rows - row < kRowBlock ? args_.rows - row : kRowBlock;
      Element* const to = static_cast<Element*>(args_.out[0]) + (batch * args_.rows + row) * line + head * args_.depth;
      store_row_sums<Math>(d_q_ + row * q_.line_stride, q_.line_stride, rows, args_.depth, factors, to, line);
    }
  }
  void write(int result, const Sum* from, std::int64_t stride, std::int64_t rows, std::int64_t heads,
             std::int64_t columns, std::int64_t batch, std::int64_t head, Sum factor) const {
    if (args_.out[result] == nullptr) return;
    auto* const out = static_cast<Element*>(args_.out[result]);
    for (std::int64_t i = 0; i < rows; ++i) {
      Element* const to = out + ((batch * rows + i) * heads + head) * columns;
      for (std::int64_t j = 0; j < columns; ++j) to[j] = Storer<Element>().store(from[i * stride + j] * factor);
    }
  }

  const AttentionArgs& args_;
  Arena arena_;
  Packed<Math> q_, k_, v_, d_output_;
  std::int64_t padded_keys_ = 0, padded_rows_ = 0;
  Sum* log_sums_ = nullptr;
  Sum* deltas_ = nullptr;
  Sum* d_q_ = nullptr;  // the sums of add_over_keys for each block of rows
  Sum* d_k_ = nullptr;
  Sum* d_v_ = nullptr;
  Sum* weights_ = nullptr;   // [kKeyBlock, kRowBlock]
  Sum* d_scores_ = nullptr;  // [kKeyBlock, kRowBlock]
  Word* weight_words_ = nullptr;
  Word* row_words_ = nullptr;
  Word* key_words_ = nullptr;
  DropoutBuffers dropout_;
};

}  // namespace
}  // namespace tessera::kernels::TESSERA_ISA
