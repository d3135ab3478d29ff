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
/// Finds the different values of all elements of x.
UniqueResult unique(Operand x, BoundedOptions options = {});

/// Options of bincount. Without weights, each id counts as 1.
struct BincountOptions {
  std::optional<std::int64_t> size{};
  Tensor weights{};
};
/// How often each of the ids 0, 1, … occurs in a vector, or the sums of their weights: [size], s32 or the type of the
/// weights. Ids that are negative, or `size` and more, are not counted. Differentiable in the weights.
Tensor bincount(Operand ids, BincountOptions options = {});

/// Options of repeat_interleave. Without a dim, x is a vector of all elements.
struct RepeatOptions {
  std::optional<int> dim{};
  std::optional<std::int64_t> size{};
  double fill_value = 0;
};
/// Repeats element i along a dim counts[i] times. `size` is the number of results; missing ones are `fill_value`.
Tensor repeat_interleave(Operand x, const Tensor& counts, RepeatOptions options = {});

}  // namespace tessera
