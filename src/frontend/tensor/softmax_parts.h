// SPDX-License-Identifier: Apache-2.0
// Parts of the functions that reduce along one dim.
#pragma once

#include "tessera/ir/builder.h"
#include "tessera/ops/contraction.h"
#include "tracing/recorded.h"

namespace tessera {

/// Repeats `small` along `dim` of `x`. `small` has the other dims of `x`.
inline Value along(Value small, Value x, int dim) {
  Dims places;
  for (int d = 0; d < x.type().ndim(); ++d)
    if (d != dim) places.push_back(d);
  return ops::broadcast(small, x.type().dims(), std::move(places));
}

/// The common part of softmax and cross entropy.
struct Exponentials {
  Value shift;    // the maximum along the dim, without gradient
  Value shifted;  // x - shift
  Value exp;
  Value sum;
};
inline Exponentials exponentials(Value x, int dim) {
  Exponentials out;
  out.shift = stop_gradient(ops::reduce(x, Reduction::kMax, {dim}));
  out.shifted = ops::subtract(x, along(out.shift, x, dim));
  out.exp = ops::exp(out.shifted);
  out.sum = ops::reduce(out.exp, Reduction::kSum, {dim});
  return out;
}

}  // namespace tessera
