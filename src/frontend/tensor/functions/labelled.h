// SPDX-License-Identifier: Apache-2.0
// Values whose dims have labels, and their contraction. matmul and einsum are built of it.
#pragma once

#include <vector>

#include "tessera/ir/builder.h"

namespace tessera {

/// A value with one label for each dim. No label occurs twice.
using Labels = std::vector<int>;
struct Labelled {
  Value value;
  Labels labels;
};

/// Sums over the labels that are not in `kept`.
Labelled sum_others(Labelled x, const Labels& kept);
/// The product of two values, summed over the labels that are not in `kept`. Dims with the same label have the same
/// size. The labels of the result are those of `kept` that occur; they are in the order in which the result is cheapest
/// to compute, and this is the order of `kept` wherever a dot can give it.
Labelled contract(Labelled x, Labelled y, const Labels& kept);
/// The dims in this order. `labels` are those of x, and may have others, for which the result has dims of size 1.
Value in_order(const Labelled& x, const Labels& labels);
/// The elements whose positions along dims a and b are equal; b is removed.
Value diagonal_of(Value x, int a, int b);

}  // namespace tessera
