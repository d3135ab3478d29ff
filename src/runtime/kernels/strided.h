// SPDX-License-Identifier: Apache-2.0
// Copies a box of elements between two arrays with any strides. The kernels of transpose, slice, pad, concatenate and
// others use it.
#pragma once

#include <cstddef>

#include "kernels/simd/kernel_set.h"
#include "tessera/tensor/type.h"

namespace tessera {

/// A copy prepared for its sizes: dims of size 1 are dropped, contiguous dims are merged.
class StridedCopy {
 public:
  StridedCopy() = default;
  /// Strides in elements; a source stride may be 0 or negative.
  StridedCopy(std::int64_t element_bytes, const Dims& dims, const Dims& from_strides, const Dims& to_strides);
  void run(const std::byte* from, std::byte* to) const;
  [[nodiscard]] std::int64_t element_count() const { return count_; }

 private:
  void run_dims(std::size_t dim, const std::byte* from, std::byte* to) const;
  void run_inner(const std::byte* from, std::byte* to) const;
  void run_transposed(const std::byte* from, std::byte* to) const;

  std::int64_t element_bytes_ = 1;
  kernels::FillFunction fill_ = nullptr;
  std::int64_t count_ = 0;
  Dims dims_;
  Dims from_;  // in bytes
  Dims to_;
  bool transposes_ = false;  // the two innermost dims swap roles: copied in blocks
};

/// Returns the function that fills arrays of elements of 1, 2, 4 or 8 bytes. Called once when a kernel is created.
kernels::FillFunction fill_function(std::int64_t element_bytes);

}  // namespace tessera
