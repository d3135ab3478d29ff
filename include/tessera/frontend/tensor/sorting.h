// SPDX-License-Identifier: Apache-2.0
// Order along a dim. Numbers are in the order -infinity, …, -0, 0, …, infinity, NaN; all NaNs are equal. Gradients go
// to the elements that were selected, except to NaNs.
#pragma once

#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

/// Elements of a tensor, and their positions along the dim as s32.
struct SortResult {
  Tensor values;
  Tensor indices;
};

struct SortOptions {
  int dim = -1;
  bool descending = false;
};
/// Sorts the elements along a dim. Stable: equal elements keep their order, also if descending.
SortResult sort(Operand x, SortOptions options = {});
/// The positions of the sorted elements, s32. Stable.
Tensor argsort(Operand x, SortOptions options = {});

struct TopKOptions {
  int dim = -1;
  bool largest = true;
};
/// The k largest (or smallest) elements along a dim, in order; of equal elements, the first come first.
SortResult topk(Operand x, std::int64_t k, TopKOptions options = {});

}  // namespace tessera
