// SPDX-License-Identifier: Apache-2.0
// Cumulative functions of reductions.h and sorting.h: element i of the result depends on the elements 0..i along a dim.
// Except for sums, they combine intervals of 1, 2, 4, … elements, which takes log2(n) steps.
#include <limits>

#include "tensor/functions/along_dim.h"
#include "tensor/mathematics.h"
#include "tensor/wide_elementwise.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tensor/reductions.h"
#include "tessera/frontend/tensor/sorting.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tessera/ops/windows.h"
#include "tracing/recorded.h"

namespace tessera {
namespace {

// Element i becomes element i + shift along dim d; the first elements become `fill`.
Value shifted(Value x, int d, std::int64_t shift, Value fill) {
  std::vector<PaddingDim> padding(x.type().dims().size());
  at(padding, d) = {shift, -shift, 0};
  return ops::pad(x, fill, std::move(padding));
}

// Combines each element with all elements before it. `identity` does not change the elements it is combined with.
Value combined_with_earlier(Value x, int d, double identity, Value (*combine)(Value, Value)) {
  const Value fill = ops::scalar(*x.builder, x.type().dtype(), identity);
  Value out = x;
  for (std::int64_t reach = 1; reach < x.type().dim(d); reach *= 2) out = combine(out, shifted(out, d, reach, fill));
  return out;
}

}  // namespace

// ---- sums and products --------------------------------------------------------------------------------------------------

Value running_sum(Value x, int dim) {
  const std::int64_t size = x.type().dim(dim);
  if (size <= 1) return x;
  WindowDims window{std::vector<WindowDim>(x.type().dims().size())};
  at(window.dims, dim) = {.size = size, .low = size - 1};
  return ops::reduce_window(x, Reduction::kSum, std::move(window));
}

Tensor cumsum(Operand x, int dim) {
  return recorded_along("cumsum", x, dim, [](Value v, int d) {
    const Value numbers = as_numbers(v);
    return narrowed(running_sum(widened(numbers), d), numbers.type().dtype());
  });
}

// The gradients need no division by an element.
Tensor cumprod(Operand x, int dim) {
  return recorded_along("cumprod", x, dim, [](Value v, int d) {
    const Value numbers = as_numbers(v);
    return narrowed(combined_with_earlier(widened(numbers), d, 1, ops::multiply), numbers.type().dtype());
  });
}

Tensor logcumsumexp(Operand x, int dim) {
  return recorded_along("logcumsumexp", x, dim, [](Value v, int d) {
    require_float_elements(v.type());
    constexpr double kNone = -std::numeric_limits<double>::infinity();
    return narrowed(combined_with_earlier(widened(v), d, kNone, logaddexp_value), v.type().dtype());
  });
}

// ---- extrema ------------------------------------------------------------------------------------------------------------

namespace {

// The extremum of the elements 0..i, and the position of its last occurrence. A NaN is the extremum.
SortResult running_extremum(std::string_view name, const Operand& x, int dim, Reduction reduction) {
  const CompareDirection wins = reduction == Reduction::kMax ? CompareDirection::kGe : CompareDirection::kLe;
  return recorded_pair_along(name, x, dim, [&](Value v, int d) {
    require(v.type().dtype() != DType::kPred, "{} has no order; convert it with .to() first", v.type());
    const Value fill = ops::constant(*v.builder, reduction_identity(reduction, v.type().dtype()));
    const Value first = ops::scalar(*v.builder, DType::kS32, 0);
    Value positions = ops::iota(*v.builder, v.type().with_dtype(DType::kS32), d);
    Value values = v;
    for (std::int64_t reach = 1; reach < v.type().dim(d); reach *= 2) {
      const Value earlier = shifted(values, d, reach, fill);
      const Value is_nan = ops::compare(values, values, CompareDirection::kNe);
      const Value stays = ops::logical_or(is_nan, ops::compare(values, earlier, wins));
      positions = ops::select(stays, positions, shifted(positions, d, reach, first));
      values = ops::select(stays, values, earlier);
    }
    return std::pair(values, positions);
  });
}

}  // namespace

SortResult cummax(Operand x, int dim) { return running_extremum("cummax", x, dim, Reduction::kMax); }
SortResult cummin(Operand x, int dim) { return running_extremum("cummin", x, dim, Reduction::kMin); }

}  // namespace tessera
