// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/tensor/reductions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tensor/functions/along_dim.h"
#include "tensor/mathematics.h"
#include "tensor/softmax_parts.h"
#include "tensor/wide_elementwise.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tensor/pointwise.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tracing/recorded.h"

namespace tessera {
namespace {

Dims reduced_dims(const Type& type, const std::vector<int>& dims) {
  Dims out;
  if (dims.empty())
    for (int d = 0; d < type.ndim(); ++d) out.push_back(d);
  for (const int d : dims) out.push_back(checked_line_dim(type, d));
  std::sort(out.begin(), out.end());
  require(std::adjacent_find(out.begin(), out.end()) == out.end(), "a dim is named twice: [{}]", fmt::join(out, ","));
  if (type.ndim() == 0) out.clear();
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
    if (reduction == Reduction::kProduct) return reduce_value(as_numbers(v), reduction, dims, options.keep_dims);
    require_elements(v.type(), dims);
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
    return reduce_value(as_numbers(v), Reduction::kSum, reduced_dims(v.type(), options.dims), options.keep_dims);
  });
}
Tensor max(Operand x, ReduceOptions options) { return reduction(x, Reduction::kMax, options); }
Tensor min(Operand x, ReduceOptions options) { return reduction(x, Reduction::kMin, options); }
Tensor amax(Operand x, ReduceOptions options) { return max(std::move(x), std::move(options)); }
Tensor amin(Operand x, ReduceOptions options) { return min(std::move(x), std::move(options)); }
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

Tensor count_nonzero(Operand x, ReduceOptions options) {
  return recorded("count_nonzero", x, [&](Value v) {
    const Value counted = ops::compare(v, constant_like(v, 0), CompareDirection::kNe);
    return reduce_value(ops::convert(counted, DType::kS32), Reduction::kSum, reduced_dims(v.type(), options.dims),
                        options.keep_dims);
  });
}

namespace {

Value is_not_nan(Value v) { return ops::compare(v, v, CompareDirection::kEq); }

Value sum_without_nan(Value v, const ReduceOptions& options) {
  const Value kept = is_float(v.type().dtype()) ? ops::select(is_not_nan(v), v, constant_like(v, 0)) : as_numbers(v);
  return reduce_value(kept, Reduction::kSum, reduced_dims(v.type(), options.dims), options.keep_dims);
}

}  // namespace

Tensor nansum(Operand x, ReduceOptions options) {
  return recorded("nansum", x, [&](Value v) { return sum_without_nan(v, options); });
}
Tensor nanmean(Operand x, ReduceOptions options) {
  return recorded("nanmean", x, [&](Value v) {
    require_floats(v.type(), "the mean");
    const Value wide = widened(v);
    const Value total = sum_without_nan(wide, options);
    const Value count = reduce_value(ops::convert(is_not_nan(wide), wide.type().dtype()), Reduction::kSum,
                                     reduced_dims(v.type(), options.dims), options.keep_dims);
    return narrowed(ops::divide(total, count), v.type().dtype());
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

// The order p is negative. An element 0 has an infinite power, with which the norm is 0, and so are all gradients.
Value norm_of_reciprocals(Value magnitude, double p, const Dims& dims, bool keep_dims) {
  const Value is_zero = ops::compare(magnitude, constant_like(magnitude, 0), CompareDirection::kEq);
  const Value safe = ops::select(is_zero, constant_like(magnitude, 1), magnitude);
  const Value infinity = constant_like(magnitude, std::numeric_limits<double>::infinity());
  const Value powers = ops::select(is_zero, infinity, ops::power(safe, constant_like(safe, p)));
  const Value total = reduce_value(powers, Reduction::kSum, dims, keep_dims);
  return ops::power(total, constant_like(total, 1 / p));
}

Value norm_value(Value wide, double p, const Dims& dims, bool keep_dims) {
  require(!std::isnan(p), "the order p is not a number");
  const auto reduced = [&](Value v, Reduction reduction) { return reduce_value(v, reduction, dims, keep_dims); };
  if (p == 2) return root(reduced(ops::multiply(wide, wide), Reduction::kSum), 0.5);
  const Value magnitude = ops::abs(wide);
  if (p < 0 || std::isinf(p)) require_elements(wide.type(), dims);
  if (std::isinf(p)) return reduced(magnitude, p > 0 ? Reduction::kMax : Reduction::kMin);
  if (p < 0) return norm_of_reciprocals(magnitude, p, dims, keep_dims);
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

// The mean of equal elements is rounded, so their variance would not be exactly 0, and its root would have a gradient.
// Therefore the largest element is subtracted first, which does not change the variance.
Tensor std(Operand x, VarOptions options) {
  return recorded("std", x, [&](Value v) {
    require_floats(v.type(), "the standard deviation");
    const Value wide = widened(v);
    const Value largest = reduce_value(wide, Reduction::kMax, reduced_dims(v.type(), options.dims), true);
    const Value shifted = ops::subtract(wide, broadcast_value(stop_gradient(largest), wide.type().dims()));
    return narrowed(root(variance(shifted, options), 0.5), v.type().dtype());
  });
}

Tensor norm(Operand x, NormOptions options) {
  return recorded("norm", x, [&](Value v) {
    require_floats(v.type(), "the norm");
    const Dims dims = reduced_dims(v.type(), options.dims);
    return narrowed(norm_value(widened(v), options.p, dims, options.keep_dims), v.type().dtype());
  });
}

// ---- distances, covariance ----------------------------------------------------------------------------------------------

namespace {

// `wide`, divided by its norms, or by epsilon where it is larger.
Value unit_vectors(Value wide, double p, const Dims& dims, double epsilon) {
  const Dims sizes = wide.type().dims();
  const Value length = norm_value(wide, p, dims, true);
  const Value divisor = ops::maximum(length, constant_like(length, epsilon));
  return ops::divide(wide, broadcast_value(divisor, sizes));
}

}  // namespace

Tensor normalize(Operand x, NormalizeOptions options) {
  return recorded("normalize", x, [&](Value v) {
    require_floats(v.type(), "the norm");
    const Dims dims = reduced_dims(v.type(), {options.dim});
    return narrowed(unit_vectors(widened(v), options.p, dims, options.epsilon), v.type().dtype());
  });
}

Tensor cosine_similarity(Operand x, Operand y, int dim, double epsilon) {
  return recorded_wide("cosine_similarity", x, y, [&](Value v, Value w) {
    const Dims dims = reduced_dims(v.type(), {dim});
    const Value products = ops::multiply(unit_vectors(v, 2, dims, epsilon), unit_vectors(w, 2, dims, epsilon));
    return reduce_value(products, Reduction::kSum, dims, false);
  });
}

Tensor pairwise_distance(Operand x, Operand y, PairwiseDistanceOptions options) {
  return recorded_wide("pairwise_distance", x, y, [&](Value v, Value w) {
    const Value difference = ops::add(ops::subtract(v, w), constant_like(v, options.epsilon));
    return norm_value(difference, options.p, reduced_dims(v.type(), {-1}), options.keep_dims);
  });
}

Tensor cdist(Operand x, Operand y, double p) {
  return recorded("cdist", x, y, [&](Value v, Value w) {
    require(p >= 0, "the order p must not be negative, got {}", p);
    const int rows = v.type().ndim() - 2, columns = w.type().ndim() - 2;
    require(rows >= 0 && columns >= 0 && v.type().dim(rows + 1) == w.type().dim(columns + 1),
            "needs [.., p, m] and [.., r, m], got {} and {}", v.type(), w.type());
    require(v.type().dtype() == w.type().dtype(), "operands have element types {} and {}; convert one with .to()",
            dtype_name(v.type().dtype()), dtype_name(w.type().dtype()));
    require_floats(v.type(), "the norm");
    // [.., p, 1, m] and [.., 1, r, m]
    Dims left = v.type().dims(), right = w.type().dims();
    left.insert(left.end() - 1, 1);
    right.insert(right.end() - 2, 1);
    const Dims dims = broadcast_dims(left, right);
    const auto spread = [&](Value u, const Dims& sizes) {
      return broadcast_value(ops::reshape(widened(u), sizes), dims);
    };
    const Value difference = ops::subtract(spread(v, left), spread(w, right));
    return narrowed(norm_value(difference, p, {isize(dims) - 1}, false), v.type().dtype());
  });
}

Tensor cov(Operand x, double correction) {
  return recorded("cov", x, [&](Value v) {
    require_floats(v.type(), "the covariance");
    require(v.type().ndim() == 1 || v.type().ndim() == 2, "needs a vector or a matrix, got {}", v.type());
    const bool is_vector = v.type().ndim() == 1;
    const Value rows = widened(is_vector ? ops::reshape(v, {1, v.type().dim(0)}) : v);
    const double count = count_along(rows.type(), {1});
    const Value total = reduce_value(rows, Reduction::kSum, {1}, true);
    const Value average = ops::divide(total, constant_like(total, count));
    const Value centered = ops::subtract(rows, broadcast_value(average, rows.type().dims()));
    const Value products = ops::dot(centered, centered, {{}, {1}, {}, {1}});
    const Value out = ops::divide(products, constant_like(products, std::max(0.0, count - correction)));
    return narrowed(is_vector ? ops::reshape(out, {}) : out, v.type().dtype());
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
    const bool is_flat = !options.dim || v.type().ndim() == 0;
    const int d = options.dim ? checked_line_dim(v.type(), *options.dim) : 0;
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

// ---- softmax -----------------------------------------------------------------------------------------------------------

Tensor softmax(Operand x, int dim) {
  return recorded_along("softmax", x, dim, [&](Value v, int d) {
    const Value wide = widened(v);
    const Exponentials e = exponentials(wide, d);
    return narrowed(ops::divide(e.exp, along(e.sum, wide, d)), v.type().dtype());
  });
}

Tensor softmin(Operand x, int dim) {
  return recorded_along("softmin", x, dim, [&](Value v, int d) {
    const Value wide = ops::negate(widened(v));
    const Exponentials e = exponentials(wide, d);
    return narrowed(ops::divide(e.exp, along(e.sum, wide, d)), v.type().dtype());
  });
}

Tensor log_softmax(Operand x, int dim) {
  return recorded_along("log_softmax", x, dim, [&](Value v, int d) {
    const Value wide = widened(v);
    const Exponentials e = exponentials(wide, d);
    return narrowed(ops::subtract(e.shifted, along(ops::log(e.sum), wide, d)), v.type().dtype());
  });
}

// The shift is finite, because inf - inf is NaN. The sum is 0 only if all elements are -inf; its gradient is then 0.
Tensor logsumexp(Operand x, int dim) {
  return recorded_along("logsumexp", x, dim, [&](Value v, int d) {
    const Value wide = widened(v);
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
