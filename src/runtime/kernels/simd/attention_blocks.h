// SPDX-License-Identifier: Apache-2.0
// Blocks of scores: masks, dropout, and the workspace of the attention kernels. Only for the sources of a kernel set.
//
// Blocks are transposed: a line holds the scores of one key with kRowBlock rows (queries), so that the maxima and sums
// of rows are those of lanes.
#pragma once

#include "kernels/simd/attention_args.h"
#include "kernels/simd/attention_tiles.h"
#if defined(__AMX_BF16__)
#include "kernels/simd/attention_amx.h"
#endif

namespace tessera::kernels::TESSERA_ISA {
namespace {

constexpr std::int64_t kRowBlock = 64;
constexpr std::int64_t kKeyBlock = 128;
constexpr std::int64_t kBlock = kRowBlock * kKeyBlock;

// The keys of a block are rounded up to this unit: those of a tile of sums or, with AMX, of a step of depth.
template <class Math>
constexpr std::int64_t kKeyUnit = Math::kUsesAmx ? 32 : kTileRows;

TESSERA_INLINE std::int64_t blocks_of(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }
TESSERA_INLINE std::int64_t rounded_up(std::int64_t count, std::int64_t unit) { return blocks_of(count, unit) * unit; }

// Takes aligned arrays from the workspace. Without one, it only adds up their sizes.
class Arena {
 public:
  explicit Arena(std::byte* from) : from_(from) {}
  template <class T>
  T* take(std::int64_t count) {
    T* const out = from_ == nullptr ? nullptr : reinterpret_cast<T*>(from_ + bytes_);
    bytes_ += rounded_up(count * static_cast<std::int64_t>(sizeof(T)), 64);
    return out;
  }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* from_;
  std::int64_t bytes_ = 0;
};

template <class Element>
Matrix<Element> matrix_of(const AttentionArray& array, std::int64_t rows, std::int64_t columns, std::int64_t batch,
                          std::int64_t head) {
  return {static_cast<const Element*>(array.data) + batch * array.batch + head * array.head, rows, columns, array.row,
          array.column};
}

// A block of the scores of one head.
struct BlockPlace {
  std::int64_t batch = 0, head = 0;
  std::int64_t row = 0, rows = 0;  // the first row, and the rows that exist
  std::int64_t key = 0, keys = 0;
};

// The number of keys that some of the rows [row, row + rows) may see.
TESSERA_INLINE std::int64_t keys_seen(const AttentionArgs& args, std::int64_t row, std::int64_t rows) {
  if (!args.causal) return args.keys;
  const std::int64_t seen = row + rows + args.offset;
  return seen < 0 ? 0 : seen < args.keys ? seen : args.keys;
}
// The first key that the row, or a later one, may see.
TESSERA_INLINE std::int64_t first_key_of(const AttentionArgs& args, std::int64_t row) {
  const std::int64_t key = args.window > 0 ? row + args.offset - args.window + 1 : 0;
  return key < 0 ? 0 : key;
}
// The first row that may see the key.
TESSERA_INLINE std::int64_t first_row_of(const AttentionArgs& args, std::int64_t key) {
  const std::int64_t row = args.causal ? key - args.offset : 0;
  return row < 0 ? 0 : row;
}

// The first row after those that may see the key.
TESSERA_INLINE std::int64_t end_row_of(const AttentionArgs& args, std::int64_t key) {
  const std::int64_t row = args.window > 0 ? key - args.offset + args.window : args.rows;
  return row < 0 ? 0 : row < args.rows ? row : args.rows;
}

TESSERA_INLINE bool needs_masks(const AttentionArgs& args, const BlockPlace& place) {
  const bool crosses = args.causal && (place.key + place.keys - 1 > place.row + args.offset ||
                                       place.key < first_key_of(args, place.row + place.rows - 1));
  return crosses || args.mask != nullptr || place.keys < kKeyBlock || !(args.scale > 0);
}

template <class Element, class Sum>
Sum mask_number(const AttentionArgs& args, std::int64_t at) {
  if (args.mask_is_pred) return static_cast<const bool*>(args.mask)[at] ? Sum{0} : -static_cast<Sum>(__builtin_inf());
  return static_cast<Sum>(load(static_cast<const Element*>(args.mask)[at]));
}

// Multiplies the scores with the scale, adds the mask, and hides keys with -inf, as well as the lines past the keys.
template <class Element, class Sum>
void mask_block(const AttentionArgs& args, const BlockPlace& place, std::int64_t lines, Sum* scores) {
  constexpr Sum kHidden = -static_cast<Sum>(__builtin_inf());
  const Sum scale = static_cast<Sum>(args.scale);
  for (std::int64_t j = 0; j < lines; ++j) {
    Sum* const line = scores + j * kRowBlock;
    if (j >= place.keys) {
      for (std::int64_t i = 0; i < kRowBlock; ++i) line[i] = kHidden;
      continue;
    }
    for (std::int64_t i = 0; i < kRowBlock; ++i) line[i] *= scale;
    if (args.mask != nullptr) {
      const std::int64_t* const s = args.mask_strides;
      const std::int64_t first = place.batch * s[0] + place.head * s[1] + place.row * s[2] + (place.key + j) * s[3];
      if (s[2] == 0) {
        const Sum added = mask_number<Element, Sum>(args, first);
        for (std::int64_t i = 0; i < kRowBlock; ++i) line[i] += added;
      } else {
        for (std::int64_t i = 0; i < place.rows; ++i) line[i] += mask_number<Element, Sum>(args, first + i * s[2]);
      }
    }
    if (!args.causal) continue;
    const std::int64_t hidden = first_row_of(args, place.key + j) - place.row;
    for (std::int64_t i = 0; i < hidden && i < kRowBlock; ++i) line[i] = kHidden;
    const std::int64_t end = end_row_of(args, place.key + j) - place.row;
    for (std::int64_t i = end < 0 ? 0 : end; i < place.rows; ++i) line[i] = kHidden;
  }
}

// Packed operands of products. All have words of zeros past the ends of the matrix.
template <class Math>
struct Packed {
  using Word = typename Math::Word;
  static constexpr std::int64_t kDepthUnit = Math::kUsesAmx ? 16 : 1;

  Word* left = nullptr;          // blocks of kKeyBlock rows, for sums over columns
  Word* right = nullptr;         // blocks of kRowBlock rows, for sums over columns: [word][row]
  Word* lines = nullptr;         // for sums over rows: [word][column]
  std::int64_t row_words = 0;    // words of a row
  std::int64_t line_stride = 0;  // the columns, rounded up to vectors

  Packed(std::int64_t columns)  // NOLINT(google-explicit-constructor)
      : row_words(rounded_up(blocks_of(columns, Math::kPair), kDepthUnit)),
        line_stride(rounded_up(columns, Lanes<typename Math::Sum>::kCount)) {}
  void take_left(std::int64_t padded_rows, Arena& arena) { left = arena.take<Word>(padded_rows * row_words); }
  void take_right(std::int64_t padded_rows, Arena& arena) { right = arena.take<Word>(padded_rows * row_words); }
  void take_lines(std::int64_t padded_rows, Arena& arena) {
    lines = arena.take<Word>(padded_rows / Math::kPair * line_stride);
  }

  template <class Element>
  void pack_left(const Matrix<Element>& m, std::int64_t padded_rows) const {
    if constexpr (Math::kUsesAmx)
      pack_amx_left(m, padded_rows, row_words, left);
    else
      for (std::int64_t first = 0; first < padded_rows; first += kKeyBlock)
        pack_turned<Math, kKeyBlock>(m, first, left + first * row_words);
  }
  // Packs the block of rows from `first` on.
  template <class Element>
  void pack_right(const Matrix<Element>& m, std::int64_t first, Word* to) const {
    if constexpr (Math::kUsesAmx)
      pack_amx_right(m, first, kRowBlock, row_words, to);
    else
      pack_turned<Math, kRowBlock>(m, first, to);
  }
  template <class Element>
  void pack_all_right(const Matrix<Element>& m) const {
    for (std::int64_t first = 0; first < m.rows; first += kRowBlock) pack_right(m, first, right + first * row_words);
  }
  template <class Element>
  void pack_lines(const Matrix<Element>& m, std::int64_t padded_rows) const {
    pack_rows<Math>(m, padded_rows / Math::kPair, line_stride, lines);
  }
  // Lines for add_over_keys. With AMX, each block of keys is a left operand: [column][word].
  template <class Element>
  void pack_values(const Matrix<Element>& m, std::int64_t padded_rows) const {
    if constexpr (Math::kUsesAmx)
      for (std::int64_t first = 0; first < padded_rows; first += kKeyBlock)
        pack_amx_columns(m, first, kKeyBlock, line_stride, lines + first / Math::kPair * line_stride);
    else
      pack_lines(m, padded_rows);
  }

  [[nodiscard]] const Word* right_at(std::int64_t row) const { return right + row * row_words; }
  [[nodiscard]] const Word* lines_at(std::int64_t row) const { return lines + row / Math::kPair * line_stride; }
};

// scores[key, row] = k q, or v d_output, for the first `lines` keys of the block.
template <class Math>
void multiply_scores(const Packed<Math>& keys, const typename Math::Word* rows, const BlockPlace& place,
                     std::int64_t lines, typename Math::Sum* scores) {
  multiply<Math, 1, kKeyBlock>({.a = keys.left + place.key * keys.row_words,
                                .b = rows,
                                .out = scores,
                                .rows = lines,
                                .columns = place.rows,
                                .depth = keys.row_words,
                                .b_stride = kRowBlock,
                                .out_stride = kRowBlock,
                                .a_stride = keys.row_words});
}

// Adds the values of the first `lines` keys of the block, weighted by words [key][row], to the sums of its rows:
// [row][column] or, with AMX, [column][row].
template <class Math>
void add_over_keys(const Packed<Math>& values, const typename Math::Word* weights, const BlockPlace& place,
                   std::int64_t lines, typename Math::Sum* sums, bool adds) {
  if constexpr (Math::kUsesAmx)
    multiply<Math, 1, 1>({.a = values.lines_at(place.key),
                          .b = weights,
                          .out = sums,
                          .rows = values.line_stride,
                          .columns = place.rows,
                          .depth = lines / Math::kPair,
                          .b_stride = kRowBlock,
                          .out_stride = kRowBlock,
                          .adds = adds,
                          .a_stride = kKeyBlock / Math::kPair});
  else
    multiply<Math, 1, kRowBlock>({.a = weights,
                                  .b = values.lines_at(place.key),
                                  .out = sums,
                                  .rows = place.rows,
                                  .columns = values.line_stride,
                                  .depth = lines / Math::kPair,
                                  .b_stride = values.line_stride,
                                  .out_stride = values.line_stride,
                                  .adds = adds});
}

// Writes the sums of a block of rows, each multiplied with its factor, to rows of `to`. A factor of 0 makes zeros.
template <class Math, class Element>
void store_row_sums(const typename Math::Sum* sums, std::int64_t line_stride, std::int64_t rows, std::int64_t columns,
                    const typename Math::Sum* factors, Element* to, std::int64_t to_stride) {
  if constexpr (Math::kUsesAmx) {
    (void)line_stride;
    store_amx_rows({.sums = sums,
                    .sums_stride = kRowBlock,
                    .rows = rows,
                    .columns = columns,
                    .factors = factors,
                    .to = to,
                    .to_stride = to_stride});
  } else {
    for (std::int64_t i = 0; i < rows; ++i) {
      const auto factor = factors[i];
      const auto* const from = sums + i * line_stride;
      for (std::int64_t j = 0; j < columns; ++j)
        to[i * to_stride + j] = Storer<Element>().store(factor != 0 ? from[j] * factor : 0);
    }
  }
}

struct DropoutBuffers {
  std::uint32_t* low = nullptr;
  std::uint32_t* high = nullptr;

  static DropoutBuffers from(const AttentionArgs& args, Arena& arena) {
    if (args.dropout_threshold == 0) return {};
    return {arena.take<std::uint32_t>(kBlock), arena.take<std::uint32_t>(kBlock)};
  }
};

// Writes the random bits of the block to buffers.low.
inline void draw_block(const AttentionArgs& args, const BlockPlace& place, std::int64_t lines,
                       const DropoutBuffers& buffers) {
  const std::int64_t* const start = args.start;
  const std::int64_t* const complete = args.complete;
  const std::int64_t head = (place.batch + start[0]) * complete[0] + place.head + start[1];
  const std::int64_t first = (head * complete[1] + place.row + start[2]) * complete[2] + place.key + start[3];
  for (std::int64_t j = 0; j < lines; ++j)
    for (std::int64_t i = 0; i < kRowBlock; ++i) {
      const auto index = static_cast<std::uint64_t>(first + i * complete[2] + j);
      buffers.low[j * kRowBlock + i] = static_cast<std::uint32_t>(index);
      buffers.high[j * kRowBlock + i] = args.key[1] + static_cast<std::uint32_t>(index >> 32U);
    }
  constexpr int kRounds = 10;
  std::uint32_t keys[kRounds];
  for (int r = 0; r < kRounds; ++r) keys[r] = args.key[0] + static_cast<std::uint32_t>(r) * 0x9E3779B9U;
  args.philox_rounds({buffers.low, buffers.low, buffers.high, lines * kRowBlock, keys, kRounds, 0xD256D193U});
}

// Multiplies a line with its factors of dropout.
template <class Sum>
TESSERA_INLINE void drop_line(const AttentionArgs& args, const std::uint32_t* bits, Sum* line) {
  const Sum kept = static_cast<Sum>(args.kept_factor);
  const std::uint32_t threshold = args.dropout_threshold;
  for (std::int64_t i = 0; i < kRowBlock; ++i) line[i] = (bits[i] >> 8U) >= threshold ? line[i] * kept : Sum{0};
}

// ---- words of a block -----------------------------------------------------------------------------------------------

// Writes the lines as words whose depth is the key: out[key / kPair][row].
template <class Math>
void words_along_keys(const typename Math::Sum* lines, std::int64_t keys, typename Math::Word* out) {
  if constexpr (Math::kPair == 1) {
    (void)lines, (void)keys, (void)out;  // the lines are such words
  } else {
    constexpr std::int64_t kLanes = Lanes<typename Math::Sum>::kCount;
    for (std::int64_t j = 0; j < keys; j += 2)
      for (std::int64_t i = 0; i < kRowBlock; i += kLanes) {
        const auto first = load_vector(lines + j * kRowBlock + i);
        const auto second = load_vector(lines + (j + 1) * kRowBlock + i);
        store_vector(out + j / 2 * kRowBlock + i, Math::rounded(first, second));
      }
  }
}
// Writes the lines as words whose depth is the row: out[key][row / kPair].
template <class Math>
void words_along_rows(const typename Math::Sum* lines, std::int64_t keys, typename Math::Word* out) {
  if constexpr (Math::kPair == 1) {
    (void)lines, (void)keys, (void)out;
  } else {
    for (std::int64_t i = 0; i < keys * kRowBlock; i += Lanes<typename Math::Sum>::kCount)
      Math::store_rounded(out + i / 2, load_vector(lines + i));
  }
}
// The words of a block: the numbers themselves, or the converted ones.
template <class Math>
const typename Math::Word* words_of(const typename Math::Sum* lines, const typename Math::Word* converted) {
  if constexpr (Math::kPair == 1)
    return lines;
  else
    return converted;
}

}  // namespace
}  // namespace tessera::kernels::TESSERA_ISA
