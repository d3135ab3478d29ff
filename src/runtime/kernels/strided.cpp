// SPDX-License-Identifier: Apache-2.0
#include "kernels/strided.h"

#include <algorithm>
#include <cstring>

namespace tessera {
namespace {

template <class Word>
void copy_words(std::byte* to, std::int64_t to_stride, const std::byte* from, std::int64_t from_stride,
                std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i, to += to_stride, from += from_stride) std::memcpy(to, from, sizeof(Word));
}

// out[i][j] = in[j][i] over rows x columns. Neighbours along i are contiguous in `from`, neighbours along j are
// contiguous in `to`.
template <class Word>
void transpose_words(std::byte* to, std::int64_t to_row, const std::byte* from, std::int64_t from_column,
                     std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kBlock = 16;
  for (std::int64_t i0 = 0; i0 < rows; i0 += kBlock)
    for (std::int64_t j0 = 0; j0 < columns; j0 += kBlock) {
      const std::int64_t i1 = std::min(rows, i0 + kBlock);
      const std::int64_t j1 = std::min(columns, j0 + kBlock);
      for (std::int64_t i = i0; i < i1; ++i) {
        auto* out = reinterpret_cast<Word*>(to + i * to_row);
        const std::byte* in = from + i * static_cast<std::int64_t>(sizeof(Word));
        for (std::int64_t j = j0; j < j1; ++j) std::memcpy(out + j, in + j * from_column, sizeof(Word));
      }
    }
}

template <class F>
void with_word(std::int64_t bytes, F&& f) {
  switch (bytes) {
    case 1: return f.template operator()<std::uint8_t>();
    case 2: return f.template operator()<std::uint16_t>();
    case 4: return f.template operator()<std::uint32_t>();
    default: return f.template operator()<std::uint64_t>();
  }
}

}  // namespace

kernels::FillFunction fill_function(std::int64_t element_bytes) {
  const int row = element_bytes == 1 ? 0 : element_bytes == 2 ? 1 : element_bytes == 4 ? 2 : 3;
  return kernels::kernel_set().fill[row];
}

StridedCopy::StridedCopy(std::int64_t element_bytes, const Dims& dims, const Dims& from_strides, const Dims& to_strides)
    : element_bytes_(element_bytes), fill_(fill_function(element_bytes)), count_(1) {
  for (std::size_t d = 0; d < dims.size(); ++d) {
    count_ *= dims[d];
    if (dims[d] == 1) continue;
    const std::int64_t from = from_strides[d] * element_bytes;
    const std::int64_t to = to_strides[d] * element_bytes;
    if (!dims_.empty() && from_.back() == dims[d] * from && to_.back() == dims[d] * to) {
      dims_.back() *= dims[d];
      from_.back() = from;
      to_.back() = to;
    } else {
      dims_.push_back(dims[d]);
      from_.push_back(from);
      to_.push_back(to);
    }
  }
  const std::size_t n = dims_.size();
  if (n < 2 || to_[n - 1] != element_bytes || from_[n - 1] == element_bytes || from_[n - 1] == 0) return;
  for (std::size_t d = n - 1; d-- > 0;) {
    if (from_[d] != element_bytes) continue;
    std::swap(dims_[d], dims_[n - 2]);  // the order of the outer dims does not matter
    std::swap(from_[d], from_[n - 2]);
    std::swap(to_[d], to_[n - 2]);
    transposes_ = true;
    return;
  }
}

void StridedCopy::run(const std::byte* from, std::byte* to) const {
  if (count_ == 0) return;
  if (dims_.empty()) {
    std::memcpy(to, from, static_cast<std::size_t>(element_bytes_));
    return;
  }
  run_dims(0, from, to);
}

void StridedCopy::run_dims(std::size_t dim, const std::byte* from, std::byte* to) const {
  if (transposes_ && dim + 2 == dims_.size()) return run_transposed(from, to);
  if (dim + 1 == dims_.size()) return run_inner(from, to);
  for (std::int64_t i = 0; i < dims_[dim]; ++i) run_dims(dim + 1, from + i * from_[dim], to + i * to_[dim]);
}

void StridedCopy::run_inner(const std::byte* from, std::byte* to) const {
  const std::int64_t count = dims_.back();
  if (to_.back() == element_bytes_ && from_.back() == element_bytes_) {
    std::memcpy(to, from, static_cast<std::size_t>(count * element_bytes_));
  } else if (to_.back() == element_bytes_ && from_.back() == 0) {
    fill_(to, from, count);
  } else {
    with_word(element_bytes_, [&]<class Word>() { copy_words<Word>(to, to_.back(), from, from_.back(), count); });
  }
}

void StridedCopy::run_transposed(const std::byte* from, std::byte* to) const {
  const std::size_t n = dims_.size();
  with_word(element_bytes_, [&]<class Word>() {
    transpose_words<Word>(to, to_[n - 2], from, from_[n - 1], dims_[n - 2], dims_[n - 1]);
  });
}

}  // namespace tessera
