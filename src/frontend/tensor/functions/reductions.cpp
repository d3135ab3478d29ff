// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/tensor/reductions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/functions/along_dim.h"
#include "tensor/softmax_parts.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tensor/pointwise.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tessera/ops/windows.h"
#include "tracing/recorded.h"

namespace tessera {
namespace {

Dims reduced_dims(const Type& type, const std::vector<int>& dims) {
  Dims out;
  if (dims.empty())
    for (int d = 0; d < type.ndim(); ++d) out.push_back(d);
  for (const int d : dims) out.push_back(checked_dim(type, d));
  std::sort(out.begin(), out.end());
  require(std::adjacent_find(out.begin(), out.end()) == out.end(), "a dim is named twice: [{}]", fmt::join(out, ","));
  return out;
}

Value reduce_value(Value x, Reduction reduction, const Dims& dims, bool keep_dims) {
  Dims kept = x.type().dims();
  for (const auto d : dims) at(kept, d) = 1;
  const Value out = ops::reduce(x, reduction, dims);
  return keep_dims ? ops::reshape(out, std::move(kept)) : out;
}

void require_elements(const Type& type, const Dims& dims) {
  for (const auto d : dims) require(at(type.dims(), d) > 0, "dim {} of {} has no elements", d, type);
}

// The maximum and the minimum of no elements do not exist; a product is then 1.
Tensor reduction(const Operand& x, Reduction reduction, const ReduceOptions& options) {
  return recorded(reduction_name(reduction), x, [&](Value v) {
    const Dims dims = reduced_dims(v.type(), options.dims);
    if (reduction != Reduction::kProduct) require_elements(v.type(), dims);
    return reduce_value(v, reduction, dims, options.keep_dims);
  });
}

double count_along(const Type& type, const Dims& dims) {
  double count = 1;
  for (const auto d : dims) count *= static_cast<double>(at(type.dims(), d));
  return count;
}

Tensor logical_reduction(std::string_view name, const Operand& x, Reduction reduction, const ReduceOptions& options) {
  return recorded(name, x, [&](Value v) {
    const Value truth =
        v.type().dtype() == DType::kPred ? v : ops::compare(v, constant_like(v, 0), CompareDirection::kNe);
    return reduce_value(truth, reduction, reduced_dims(v.type(), options.dims), options.keep_dims);
  });
}

void require_floats(const Type& type, std::string_view what) {
  require(is_float(type.dtype()), "{} of {} would be truncated to an integer; convert it with .to() first", what, type);
}

}  // namespace

Tensor sum(Operand x, ReduceOptions options) {
  return recorded("sum", x, [&](Value v) {
    const Value numbers = v.type().dtype() == DType::kPred ? ops::convert(v, DType::kS32) : v;
    return reduce_value(numbers, Reduction::kSum, reduced_dims(v.type(), options.dims), options.keep_dims);
  });
}
Tensor max(Operand x, ReduceOptions options) { return reduction(x, Reduction::kMax, options); }
Tensor min(Operand x, ReduceOptions options) { return reduction(x, Reduction::kMin, options); }
Tensor prod(Operand x, ReduceOptions options) { return reduction(x, Reduction::kProduct, options); }
Tensor any(Operand x, ReduceOptions options) { return logical_reduction("any", x, Reduction::kOr, options); }
Tensor all(Operand x, ReduceOptions options) { return logical_reduction("all", x, Reduction::kAnd, options); }
Tensor mean(Operand x, ReduceOptions options) {
  return recorded("mean", x, [&](Value v) {
    require_floats(v.type(), "the mean");
    const Dims dims = reduced_dims(v.type(), options.dims);
    const Value total = reduce_value(widened(v), Reduction::kSum, dims, options.keep_dims);
    // Divides before the conversion: the sum may be beyond the numbers of f16.
    return narrowed(ops::divide(total, constant_like(total, count_along(v.type(), dims))), v.type().dtype());
  });
}

// ---- variance, norm -----------------------------------------------------------------------------------------------------

namespace {

// The variance of `wide`, with the reduced dims of size 1 if they are kept.
Value variance(Value wide, const VarOptions& options) {
  const Dims dims = reduced_dims(wide.type(), options.dims);
  const double count = count_along(wide.type(), dims);
  const Value total = reduce_value(wide, Reduction::kSum, dims, true);
  const Value average = ops::divide(total, constant_like(total, count));
  const Value centered = ops::subtract(wide, broadcast_value(average, wide.type().dims()));
  const Value squares = reduce_value(ops::multiply(centered, centered), Reduction::kSum, dims, options.keep_dims);
  return ops::divide(squares, constant_like(squares, std::max(0.0, count - options.correction)));
}

// x^exponent for x >= 0. The gradient at 0 is 0.
Value root(Value x, double exponent) {
  const Value zero = constant_like(x, 0);
  const Value is_zero = ops::compare(x, zero, CompareDirection::kEq);
  const Value safe = ops::select(is_zero, constant_like(x, 1), x);
  const Value power = exponent == 0.5 ? ops::sqrt(safe) : ops::power(safe, constant_like(x, exponent));
  return ops::select(is_zero, zero, power);
}

Value norm_value(Value wide, double p, const Dims& dims, bool keep_dims) {
  const auto reduced = [&](Value v, Reduction reduction) { return reduce_value(v, reduction, dims, keep_dims); };
  if (p == 2) return root(reduced(ops::multiply(wide, wide), Reduction::kSum), 0.5);
  const Value magnitude = ops::abs(wide);
  if (std::isinf(p)) return reduced(magnitude, p > 0 ? Reduction::kMax : Reduction::kMin);
  if (p == 1) return reduced(magnitude, Reduction::kSum);
  if (p == 0) {
    const Value counts = ops::compare(wide, constant_like(wide, 0), CompareDirection::kNe);
    return reduced(ops::convert(counts, wide.type().dtype()), Reduction::kSum);
  }
  return root(reduced(root(magnitude, p), Reduction::kSum), 1 / p);
}

}  // namespace

Tensor var(Operand x, VarOptions options) {
  return recorded("var", x, [&](Value v) {
    require_floats(v.type(), "the variance");
    return narrowed(variance(widened(v), options), v.type().dtype());
  });
}

Tensor std(Operand x, VarOptions options) {
  return recorded("std", x, [&](Value v) {
    require_floats(v.type(), "the standard deviation");
    return narrowed(ops::sqrt(variance(widened(v), options)), v.type().dtype());
  });
}

Tensor norm(Operand x, NormOptions options) {
  return recorded("norm", x, [&](Value v) {
    require_floats(v.type(), "the norm");
    require(options.p >= 0 || std::isinf(options.p), "the order p must not be negative, got {}", options.p);
    const Dims dims = reduced_dims(v.type(), options.dims);
    if (std::isinf(options.p)) require_elements(v.type(), dims);
    return narrowed(norm_value(widened(v), options.p, dims, options.keep_dims), v.type().dtype());
  });
}

// ---- positions ----------------------------------------------------------------------------------------------------------

namespace {

// The first position of the extremum or of a NaN along dim d.
Value first_extremum(Value v, Reduction reduction, int d) {
  require_elements(v.type(), {d});
  const Value extremum = along(ops::reduce(v, reduction, {d}), v, d);
  const Value index = ops::iota(*v.builder, v.type().with_dtype(DType::kS32), d);
  const Value beyond = constant_like(index, static_cast<double>(v.type().dim(d)));
  Value reached = ops::compare(v, extremum, CompareDirection::kEq);
  if (is_float(v.type().dtype())) reached = ops::logical_or(reached, ops::compare(v, v, CompareDirection::kNe));
  return ops::reduce(ops::select(reached, index, beyond), Reduction::kMin, {d});
}

Tensor position(std::string_view name, const Operand& x, Reduction reduction, const ArgOptions& options) {
  return recorded(name, x, [&](Value v) {
    const bool is_flat = !options.dim;
    const int d = is_flat ? 0 : checked_dim(v.type(), *options.dim);
    Dims kept(v.type().dims().size(), 1);
    if (!is_flat) {
      kept = v.type().dims();
      at(kept, d) = 1;
    }
    const Value line = is_flat ? ops::reshape(v, {v.type().element_count()}) : v;
    const Value out = first_extremum(line, reduction, d);
    return options.keep_dims ? ops::reshape(out, std::move(kept)) : out;
  });
}

}  // namespace

Tensor argmax(Operand x, ArgOptions options) { return position("argmax", x, Reduction::kMax, options); }
Tensor argmin(Operand x, ArgOptions options) { return position("argmin", x, Reduction::kMin, options); }
Tensor argmax(Operand x, int dim) { return argmax(x, ArgOptions{.dim = dim}); }
Tensor argmin(Operand x, int dim) { return argmin(x, ArgOptions{.dim = dim}); }

// ---- cumulative functions -----------------------------------------------------------------------------------------------

namespace {

// Element i becomes element i + shift along dim d; the first elements become `fill`.
Value shifted(Value x, int d, std::int64_t shift, double fill) {
  std::vector<PaddingDim> padding(x.type().dims().size());
  at(padding, d) = {shift, -shift, 0};
  return ops::pad(x, ops::scalar(*x.builder, x.type().dtype(), fill), std::move(padding));
}

}  // namespace

Value running_sum(Value x, int dim) {
  const std::int64_t size = x.type().dim(dim);
  if (size <= 1) return x;
  WindowDims window{std::vector<WindowDim>(x.type().dims().size())};
  at(window.dims, dim) = {.size = size, .low = size - 1};
  return ops::reduce_window(x, Reduction::kSum, std::move(window));
}

Tensor cumsum(Operand x, int dim) {
  return recorded("cumsum", x, [&](Value v) {
    require(v.type().dtype() != DType::kPred, "{} has no sums; convert it with .to() first", v.type());
    return narrowed(running_sum(widened(v), checked_dim(v.type(), dim)), v.type().dtype());
  });
}

// Products over 1, 2, 4, … elements: log2(n) multiplications, whose gradients need no division by an element.
Tensor cumprod(Operand x, int dim) {
  return recorded("cumprod", x, [&](Value v) {
    const int d = checked_dim(v.type(), dim);
    Value out = widened(v);
    for (std::int64_t reach = 1; reach < v.type().dim(d); reach *= 2)
      out = ops::multiply(out, shifted(out, d, reach, 1));
    return narrowed(out, v.type().dtype());
  });
}

// ---- softmax -----------------------------------------------------------------------------------------------------------

Tensor softmax(Operand x, int dim) {
  return recorded("softmax", x, [&](Value v) {
    const Value wide = widened(v);
    const int d = checked_dim(v.type(), dim);
    const Exponentials e = exponentials(wide, d);
    return narrowed(ops::divide(e.exp, along(e.sum, wide, d)), v.type().dtype());
  });
}

Tensor log_softmax(Operand x, int dim) {
  return recorded("log_softmax", x, [&](Value v) {
    const Value wide = widened(v);
    const int d = checked_dim(v.type(), dim);
    const Exponentials e = exponentials(wide, d);
    return narrowed(ops::subtract(e.shifted, along(ops::log(e.sum), wide, d)), v.type().dtype());
  });
}

// The shift is finite, because inf - inf is NaN. The sum is 0 only if all elements are -inf; its gradient is then 0.
Tensor logsumexp(Operand x, int dim) {
  return recorded("logsumexp", x, [&](Value v) {
    const Value wide = widened(v);
    const int d = checked_dim(v.type(), dim);
    const Value largest = stop_gradient(ops::reduce(wide, Reduction::kMax, {d}));
    const Value zero = constant_like(largest, 0);
    const Value shift = ops::select(ops::is_finite(largest), largest, zero);
    const Value sum = ops::reduce(ops::exp(ops::subtract(wide, along(shift, wide, d))), Reduction::kSum, {d});
    const Value is_zero = ops::compare(sum, zero, CompareDirection::kEq);
    const Value logarithm = ops::log(ops::select(is_zero, constant_like(sum, 1), sum));
    const Value negative_infinity = constant_like(sum, -std::numeric_limits<double>::infinity());
    return narrowed(ops::select(is_zero, negative_infinity, ops::add(shift, logarithm)), v.type().dtype());
  });
}

}  // namespace tessera
