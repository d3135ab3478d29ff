// SPDX-License-Identifier: Apache-2.0
// Functions whose number of results depends on the data. Because programs have fixed shapes, each call needs a bound,
// `size`. The result has the first `size` elements; missing elements are `fill_value`. A call without a bound is an
// error.
//
//   const Tensor rows = masked_select(x, x > 0, {.size = 100});
//   const Tensor count = sum(x > 0);       how many of them are results
#pragma once

#include <optional>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

struct BoundedOptions {
  std::optional<std::int64_t> size{};
  double fill_value = 0;
};

/// The positions of the elements that are true, or not 0, in row-major order: s32[size, ndim].
Tensor nonzero(Operand x, BoundedOptions options = {});
/// The elements of x where the mask (pred) holds, in row-major order: [size]. x and mask broadcast. Differentiable.
Tensor masked_select(Operand x, Operand mask, BoundedOptions options = {});

/// The different values of a tensor in ascending order.
struct UniqueResult {
  Tensor values;   // [size]
  Tensor inverse;  // s32, the shape of x: the position of each element in values; size or more if it is not there
  Tensor counts;   // s32[size]: how often each value occurs; 0 for fill values
  Tensor count;    // s32[]: the number of different values, which may be more than size
};
UniqueResult unique(Operand x, BoundedOptions options = {});

}  // namespace tessera
