// SPDX-License-Identifier: Apache-2.0
// Attention over blocks of rows and keys, without complete scores: FlashAttention-2 (Dao, 2023). The forward pass keeps
// the running maximum and sum of each row (online softmax). The backward pass computes the scores again from queries,
// keys and the log-sum-exp. Causal blocks without visible keys are skipped.
#include "kernels/simd/attention_few_rows.h"

namespace tessera::kernels::TESSERA_ISA {
namespace {

// ---- forward ------------------------------------------------------------------------------------------------------------------

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
    k_.take_turned(key_blocks, kKeyBlock, arena_);
    v_.take_lines(key_blocks * kKeyBlock, arena_);
    q_.take_turned(1, kRowBlock, arena_);
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
        k_.template pack_all_turned<kKeyBlock>(matrix_of<Element>(args_.k, seen, args_.depth, b, h));
        v_.pack_all_lines(matrix_of<Element>(args_.v, seen, args_.value_depth, b, h), rounded_up(seen, kKeyBlock));
        for (std::int64_t head = h * group; head < (h + 1) * group; ++head)
          for (std::int64_t row = 0; row < args_.rows; row += kRowBlock) run_rows(b, head, row);
      }
  }

 private:
  void run_rows(std::int64_t batch, std::int64_t head, std::int64_t row) {
    BlockPlace place{.batch = batch, .head = head, .row = row};
    place.rows = args_.rows - row < kRowBlock ? args_.rows - row : kRowBlock;
    const auto q = matrix_of<Element>(args_.q, args_.rows, args_.depth, batch, head);
    pack_turned<Math, kRowBlock>(q, row, q_.turned);
    for (std::int64_t i = 0; i < kRowBlock; ++i) {
      largest_[i] = kHidden;
      sums_[i] = 0;
    }
    const std::int64_t end = keys_seen(args_, row, place.rows);
    for (place.key = 0; place.key < end; place.key += kKeyBlock) {
      place.keys = end - place.key < kKeyBlock ? end - place.key : kKeyBlock;
      add_block(place);
    }
    write(place, end > 0);
  }

  void add_block(const BlockPlace& place) {
    multiply_scores(k_, place.key, q_.turned, place, scores_);
    const bool masks = needs_masks(args_, place);
    if (masks) mask_block<Element, Sum>(args_, place, scores_);
    const Sum unit = masks ? Sum{1} : static_cast<Sum>(args_.scale);
    const std::int64_t lines = rounded_up(place.keys, kTileRows);
    bool shrinks = false;
    for (std::int64_t i = 0; i < place.rows; i += kLanes) shrinks = weigh_lanes(lines, i, unit) || shrinks;
    if (shrinks && place.key > 0) rescale(place.rows);
    if (args_.dropout_threshold > 0) {
      draw_block(args_, place, dropout_);
      for (std::int64_t j = 0; j < lines; ++j) drop_line(args_, dropout_.low + j * kRowBlock, scores_ + j * kRowBlock);
    }
    words_along_keys<Math>(scores_, lines, words_);
    multiply<Math, 1, kRowBlock>({.a = words_of<Math>(scores_, words_),
                                  .b = v_.lines_at(place.key),
                                  .out = mixed_,
                                  .rows = place.rows,
                                  .columns = v_.line_stride,
                                  .depth = lines / Math::kPair,
                                  .b_stride = v_.line_stride,
                                  .out_stride = v_.line_stride,
                                  .adds = place.key > 0});
  }

  // Turns the scores of the rows [i, i + kLanes) into weights relative to the new maxima. Returns whether a maximum
  // grew.
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
    Vector sum[2] = {load_vector(sums_ + i) * shrink, Vector{}};
    for (std::int64_t j = 0; j < lines; j += 2)
#pragma GCC unroll 2
      for (std::int64_t u = 0; u < 2; ++u) {
        Sum* const at = first + (j + u) * kRowBlock;
        const Vector weight = exp_lanes(load_vector(at) * unit - shift);
        sum[u] += weight;
        store_vector(at, weight);
      }
    store_vector(sums_ + i, sum[0] + sum[1]);
    store_vector(largest_ + i, now);
    store_vector(shrink_ + i, shrink);
    bool grew = false;
    for (std::int64_t lane = 0; lane < kLanes; ++lane) grew = grew || shrink[lane] != Sum{1};
    return grew;
  }

  void rescale(std::int64_t rows) {
    for (std::int64_t i = 0; i < rows; ++i) {
      const Vector factor = all_lanes(shrink_[i]);
      Sum* const line = mixed_ + i * v_.line_stride;
      for (std::int64_t j = 0; j < v_.line_stride; j += kLanes) store_vector(line + j, load_vector(line + j) * factor);
    }
  }

  void write(const BlockPlace& place, bool any) {
    for (std::int64_t i = 0; i < place.rows; ++i) {
      const std::int64_t line = (place.batch * args_.rows + place.row + i) * args_.heads + place.head;
      const bool seen = any && sums_[i] != 0;
      if (args_.out[0] != nullptr) {
        Element* const to = static_cast<Element*>(args_.out[0]) + line * args_.value_depth;
        const Sum factor = seen ? Sum{1} / sums_[i] : Sum{0};
        const Sum* const from = mixed_ + i * v_.line_stride;
        for (std::int64_t j = 0; j < args_.value_depth; ++j)
          to[j] = Storer<Element>().store(seen ? from[j] * factor : Sum{0});
      }
      if (args_.out[1] != nullptr)
        static_cast<Sum*>(args_.out[1])[line] = seen ? largest_[i] + log_of(sums_[i]) : kHidden;
    }
  }

  const AttentionArgs& args_;
  Arena arena_;
  Packed<Math> q_, k_, v_;
  Sum* scores_ = nullptr;  // [kKeyBlock, kRowBlock]
  Word* words_ = nullptr;
  Sum* mixed_ = nullptr;  // [kRowBlock, value depth]
  DropoutBuffers dropout_;
  alignas(64) Sum largest_[kRowBlock];
  alignas(64) Sum sums_[kRowBlock];
  alignas(64) Sum shrink_[kRowBlock];
};

// ---- backward -----------------------------------------------------------------------------------------------------------------

template <class Math, class Element>
class Backward {
  using Sum = typename Math::Sum;
  using Word = typename Math::Word;
  using Vector = Vec<Sum>;
  static constexpr std::int64_t kLanes = Lanes<Sum>::kCount;

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
    k_.take_turned(padded_keys_ / kKeyBlock, kKeyBlock, arena_);
    k_.take_lines(padded_keys_, arena_);
    v_.take_turned(padded_keys_ / kKeyBlock, kKeyBlock, arena_);
    q_.take_turned(padded_rows_ / kRowBlock, kRowBlock, arena_);
    q_.take_lines(padded_rows_, arena_);
    d_output_.take_turned(padded_rows_ / kRowBlock, kRowBlock, arena_);
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
        k_.template pack_all_turned<kKeyBlock>(k);
        k_.pack_all_lines(k, padded_keys_);
        v_.template pack_all_turned<kKeyBlock>(matrix_of<Element>(args_.v, args_.keys, args_.value_depth, b, h));
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
    q_.template pack_all_turned<kRowBlock>(q);
    q_.pack_all_lines(q, padded_rows_);
    d_output_.template pack_all_turned<kRowBlock>(d_output);
    d_output_.pack_all_lines(d_output, padded_rows_);
    read_sums(batch, head);
    clear(d_q_, padded_rows_ * q_.line_stride);
    BlockPlace place{.batch = batch, .head = head};
    for (place.key = 0; place.key < args_.keys; place.key += kKeyBlock) {
      const std::int64_t first = first_row_of(args_, place.key) / kRowBlock * kRowBlock;
      for (place.row = first; place.row < args_.rows; place.row += kRowBlock) {
        place.rows = args_.rows - place.row < kRowBlock ? args_.rows - place.row : kRowBlock;
        const std::int64_t keys = keys_seen(args_, place.row, place.rows) - place.key;
        place.keys = keys < kKeyBlock ? keys : kKeyBlock;
        if (keys > 0) add_block(place);
      }
    }
    write(0, d_q_, q_.line_stride, args_.rows, args_.heads, args_.depth, batch, head, static_cast<Sum>(args_.scale));
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
    multiply_scores(k_, place.key, q_.turned_at(place.row), place, weights_);
    multiply_scores(v_, place.key, d_output_.turned_at(place.row), place, d_scores_);
    const bool masks = needs_masks(args_, place);
    if (masks) mask_block<Element, Sum>(args_, place, weights_);
    const std::int64_t lines = rounded_up(place.keys, kTileRows);
    const bool drops = args_.dropout_threshold > 0;
    if (drops) draw_block(args_, place, dropout_);
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
    const std::int64_t row_words = rounded_up(place.rows, Math::kPair) / Math::kPair;
    multiply<Math, kLine, 1>({.a = words_of<Math>(weights_, weight_words_),
                              .b = d_output_.lines_at(place.row),
                              .out = d_v_ + place.key * v_.line_stride,
                              .rows = place.keys,
                              .columns = v_.line_stride,
                              .depth = row_words,
                              .b_stride = d_output_.line_stride,
                              .out_stride = v_.line_stride,
                              .adds = true});
    multiply<Math, kLine, 1>({.a = words_of<Math>(d_scores_, row_words_),
                              .b = q_.lines_at(place.row),
                              .out = d_k_ + place.key * k_.line_stride,
                              .rows = place.keys,
                              .columns = k_.line_stride,
                              .depth = row_words,
                              .b_stride = q_.line_stride,
                              .out_stride = k_.line_stride,
                              .adds = true});
    multiply<Math, 1, kRowBlock>({.a = words_of<Math>(d_scores_, key_words_),
                                  .b = k_.lines_at(place.key),
                                  .out = d_q_ + place.row * q_.line_stride,
                                  .rows = place.rows,
                                  .columns = q_.line_stride,
                                  .depth = lines / Math::kPair,
                                  .b_stride = k_.line_stride,
                                  .out_stride = q_.line_stride,
                                  .adds = true});
  }

  void write(int result, const Sum* from, std::int64_t stride, std::int64_t rows, std::int64_t heads,
             std::int64_t columns, std::int64_t batch, std::int64_t head, Sum factor) const {
    if (args_.out[result] == nullptr) return;
    Element* const out = static_cast<Element*>(args_.out[result]);
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
  Sum* d_q_ = nullptr;
  Sum* d_k_ = nullptr;
  Sum* d_v_ = nullptr;
  Sum* weights_ = nullptr;   // [kKeyBlock, kRowBlock]
  Sum* d_scores_ = nullptr;  // [kKeyBlock, kRowBlock]
  Word* weight_words_ = nullptr;
  Word* row_words_ = nullptr;
  Word* key_words_ = nullptr;
  DropoutBuffers dropout_;
};

template <class Math, class Element>
void run_forward(const AttentionArgs& args) {
  using Few = FewRows<Element, typename Math::Sum>;
  if (Few::takes(args))
    Few(args, args.workspace).run();
  else
    Forward<Math, Element>(args, args.workspace).run();
}
template <class Math, class Element>
std::int64_t forward_bytes(const AttentionArgs& args) {
  using Few = FewRows<Element, typename Math::Sum>;
  return Few::takes(args) ? Few(args, nullptr).bytes() : Forward<Math, Element>(args, nullptr).bytes();
}
template <class Math, class Element>
AttentionFunctions functions_of() {
  return {run_forward<Math, Element>,
          [](const AttentionArgs& args) { Backward<Math, Element>(args, args.workspace).run(); },
          forward_bytes<Math, Element>,
          [](const AttentionArgs& args) { return Backward<Math, Element>(args, nullptr).bytes(); }};
}

}  // namespace

AttentionFunctions attention_functions(DType dtype) {
#if defined(__AVX512BF16__)
  return dtype == DType::kBF16 ? functions_of<PairWords, BFloat16>() : AttentionFunctions{};
#else
  switch (dtype) {
    case DType::kF32: return functions_of<PlainWords<float>, float>();
    case DType::kF64: return functions_of<PlainWords<double>, double>();
    case DType::kBF16: return functions_of<PlainWords<float>, BFloat16>();
    case DType::kF16: return functions_of<PlainWords<float>, Float16>();
    default: return {};
  }
#endif
}

}  // namespace tessera::kernels::TESSERA_ISA
