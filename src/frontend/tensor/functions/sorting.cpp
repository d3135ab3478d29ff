// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/tensor/sorting.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/functions/along_dim.h"
#include "tensor/mathematics.h"
#include "tensor/number_types.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tensor/shaping.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/linear_algebra.h"
#include "tessera/ops/structural.h"
#include "tracing/recorded.h"

namespace tessera {
namespace {

// Compares two keys; the positions of the elements, which follow them, are not compared.
ComputationId sort_comparator(ProgramBuilder& program, DType dtype, bool descending) {
  Builder comparator = program.computation(descending ? "descending" : "ascending");
  const Value a = ops::parameter(comparator, 0, Type::scalar(dtype), "a");
  const Value b = ops::parameter(comparator, 1, Type::scalar(dtype), "b");
  ops::parameter(comparator, 2, Type::scalar(DType::kS32), "position_a");
  ops::parameter(comparator, 3, Type::scalar(DType::kS32), "position_b");
  const Value is_first = ops::compare(a, b, descending ? CompareDirection::kGt : CompareDirection::kLt,
                                      is_float(dtype) ? CompareType::kTotalOrder : CompareType::kDefault);
  return program.add(std::move(comparator), is_first);
}

// Gives every NaN the same bits. In the total order, they are then equal and larger than all numbers; NaNs with the sign
// bit, such as 0/0 on x86, would be smaller.
Value with_one_nan(Value x) {
  if (!is_float(x.type().dtype())) return x;
  const Value is_nan = ops::compare(x, x, CompareDirection::kNe);
  return ops::select(is_nan, constant_like(x, std::numeric_limits<double>::quiet_NaN()), x);
}

// (sorted values, positions)
Value sorted_pair(Value x, const SortOptions& options) {
  require(x.type().dtype() != DType::kPred, "{} has no order; convert it with .to() first", x.type());
  const int d = checked_dim(x.type(), options.dim);
  const Value positions = ops::iota(*x.builder, x.type().with_dtype(DType::kS32), d);
  return ops::sort({with_one_nan(x), positions}, d, true,
                   sort_comparator(x.builder->program(), x.type().dtype(), options.descending));
}

}  // namespace

SortResult sort(Operand x, SortOptions options) {
  return recorded_pair_along("sort", x, options.dim, [&](Value v, int d) {
    const Value pair = sorted_pair(v, {.dim = d, .descending = options.descending});
    const Value indices = ops::get_tuple_element(pair, 1);
    return std::pair(ops::get_tuple_element(pair, 0), indices);
  });
}

Tensor argsort(Operand x, SortOptions options) {
  return recorded_along("argsort", x, options.dim, [&](Value v, int d) {
    return ops::get_tuple_element(sorted_pair(v, {.dim = d, .descending = options.descending}), 1);
  });
}

SortResult topk(Operand x, std::int64_t k, TopKOptions options) {
  return recorded_pair_along("topk", x, options.dim, [&](Value v, int d) {
    const int last = v.type().ndim() - 1;
    require(k >= 0 && k <= v.type().dim(d), "k={}, but dim {} of {} has {} elements", k, options.dim, v.type(),
            v.type().dim(d));
    Dims exchanged;
    for (int i = 0; i <= last; ++i) exchanged.push_back(i);
    std::swap(exchanged[static_cast<std::size_t>(d)], exchanged.back());
    const auto turned = [&](Value part) { return d == last ? part : ops::transpose(part, exchanged); };
    const Value pair = ops::topk(turned(with_one_nan(v)), k, options.largest);
    const Value indices = turned(ops::get_tuple_element(pair, 1));
    return std::pair(turned(ops::get_tuple_element(pair, 0)), indices);
  });
}

// ---- median and quantiles -----------------------------------------------------------------------------------------------

namespace {

Value is_nan_value(Value v) { return ops::compare(v, v, CompareDirection::kNe); }

std::int64_t checked_count(const Type& type, int d) {
  require(type.dim(d) > 0, "dim {} of {} has no elements", d, type);
  return type.dim(d);
}

// [..] or [.., 1, ..]
Value without_dim(Value v, int d, bool keep_dims) {
  if (keep_dims) return v;
  Dims dims = v.type().dims();
  dims.erase(dims.begin() + d);
  return ops::reshape(v, std::move(dims));
}

// `last` where it is NaN: the sorted elements then have a NaN.
Value unless_nan(Value chosen, Value last, Value of_chosen, Value of_last) {
  return is_float(last.type().dtype()) ? ops::select(is_nan_value(last), of_last, of_chosen) : chosen;
}

}  // namespace

// A maximum of the elements that equal the median is the median, and shares its gradient equally.
Tensor median(Operand x) {
  return recorded("median", x, [&](Value v) {
    const Value line = ops::reshape(v, {v.type().element_count()});
    const std::int64_t n = checked_count(line.type(), 0);
    const Value sorted = ops::get_tuple_element(sorted_pair(line, {.dim = 0}), 0);
    const auto element = [&](std::int64_t i) { return ops::reshape(ops::slice_dim(sorted, 0, i, i + 1), {}); };
    const Value middle = stop_gradient(element((n - 1) / 2)), last = stop_gradient(element(n - 1));
    const Value is_middle = ops::compare(line, ops::splat(middle, {n}), CompareDirection::kEq);
    const Value least = ops::constant(*v.builder, reduction_identity(Reduction::kMax, v.type().dtype()));
    const Value shared = ops::reduce(ops::select(is_middle, line, ops::splat(least, {n})), Reduction::kMax, {0});
    return unless_nan(shared, last, shared, last);
  });
}

SortResult median(Operand x, MedianOptions options) {
  return recorded_pair_along("median", x, options.dim, [&](Value v, int d) {
    const std::int64_t n = checked_count(v.type(), d);
    const Value pair = sorted_pair(v, {.dim = d});
    const auto element = [&](int leaf, std::int64_t i) {
      return without_dim(ops::slice_dim(ops::get_tuple_element(pair, leaf), d, i, i + 1), d, options.keep_dims);
    };
    const Value middle = element(0, (n - 1) / 2), last = element(0, n - 1);
    const Value positions = unless_nan(element(1, (n - 1) / 2), last, element(1, (n - 1) / 2), element(1, n - 1));
    return std::pair(unless_nan(middle, last, middle, last), positions);
  });
}

namespace {

// The number at `rank`, which may be between two elements of the sorted lines.
Value at_rank(Value sorted, int d, double rank, QuantileMethod method) {
  const auto element = [&](double i) {
    const auto position = static_cast<std::int64_t>(i);
    return widened(ops::slice_dim(sorted, d, position, position + 1));
  };
  const double below = std::floor(rank), above = std::ceil(rank);
  switch (method) {
    case QuantileMethod::kLower: return element(below);
    case QuantileMethod::kHigher: return element(above);
    case QuantileMethod::kNearest: return element(std::nearbyint(rank));
    default: break;
  }
  if (below == above) return element(below);
  const Value low = element(below);
  const double share = method == QuantileMethod::kMidpoint ? 0.5 : rank - below;
  return lerp_value(low, element(above), constant_like(low, share));
}

}  // namespace

Tensor quantile(Operand x, double q, QuantileOptions options) {
  return recorded("quantile", x, [&](Value v) {
    require(is_float(v.type().dtype()), "needs floats, got {}; convert it with .to() first", v.type());
    require(q >= 0 && q <= 1, "q must be in [0, 1], got {}", q);
    const int d = options.dim ? checked_line_dim(v.type(), *options.dim) : 0;
    const bool is_flat = !options.dim || v.type().ndim() == 0;
    const Value lines = is_flat ? ops::reshape(v, {v.type().element_count()}) : v;
    const std::int64_t n = checked_count(lines.type(), d);
    const Value sorted = ops::get_tuple_element(sorted_pair(lines, {.dim = d}), 0);
    const Value last = widened(ops::slice_dim(sorted, d, n - 1, n));
    const Value number = at_rank(sorted, d, q * static_cast<double>(n - 1), options.method);
    const Value out = narrowed(unless_nan(number, last, number, last), v.type().dtype());
    if (!is_flat || !options.keep_dims) return without_dim(out, d, options.keep_dims);
    return ops::reshape(out, Dims(v.type().dims().size(), 1));
  });
}

Tensor quantile(Operand x, const std::vector<double>& q, QuantileOptions options) {
  in_context("quantile", {&x.tensor()}, x.where(), [&] { require(!q.empty(), "needs at least one fraction"); });
  std::vector<Tensor> out;
  for (const double each : q) out.push_back(quantile(x, each, options));
  return stack(out, 0, x.where());
}

// ---- search -------------------------------------------------------------------------------------------------------------

// Adds steps of … 4, 2, 1 elements to the count, if the last one of the added elements comes before the value.
Value insertion_points(Value sorted, Value values, const SearchOptions& options) {
  const int last = sorted.type().ndim() - 1;
  const std::int64_t n = sorted.type().dim(last);
  Value count = trace().full(values.type().with_dtype(DType::kS32), 0);
  std::int64_t step = 1;
  while (2 * step <= n) step *= 2;
  for (; step > 0 && n > 0; step /= 2) {
    const Value reach = ops::add(count, constant_like(count, static_cast<double>(step)));
    const Value position = ops::subtract(reach, constant_like(reach, 1));
    const Value element = last == 0 ? ops::take_rows(sorted, position) : gather_along(sorted, position, last);
    // NaN comes after every number.
    const Value is_after = ops::compare(element, values, options.right ? CompareDirection::kGt : CompareDirection::kGe);
    const Value is_inside = ops::compare(reach, constant_like(reach, static_cast<double>(n)), CompareDirection::kLe);
    count = ops::select(ops::logical_and(is_inside, ops::logical_not(is_after)), reach, count);
  }
  return count;
}

namespace {

Tensor searched(std::string_view name, const Operand& sorted, const Operand& values, SearchOptions options) {
  return recorded(name, sorted, [&](Value s) {
    require(s.type().ndim() > 0, "needs at least one dim of sorted elements, got {}", s.type());
    require(s.type().element_count() < (std::int64_t{1} << 31), "{} has more than 2^31 elements", s.type());
    if (values.is_number()) {
      require(s.type().ndim() == 1, "a number is searched in a vector, got {}", s.type());
      check_number(values.number(), s.type());
      return insertion_points(s, trace().scalar(s.type().dtype(), values.number()), options);
    }
    const Value v = operand_value(values);
    require(v.type().dtype() == s.type().dtype(), "operands have element types {} and {}; convert one with .to()",
            dtype_name(s.type().dtype()), dtype_name(v.type().dtype()));
    const auto& lines = s.type().dims();
    const bool has_lines =
        v.type().ndim() == s.type().ndim() && std::equal(lines.begin(), lines.end() - 1, v.type().dims().begin());
    require(s.type().ndim() == 1 || has_lines, "{} needs values of the same sizes except the last one, got {}",
            s.type(), v.type());
    return insertion_points(s, v, options);
  });
}

}  // namespace

Tensor searchsorted(Operand sorted, Operand values, SearchOptions options) {
  return searched("searchsorted", sorted, values, options);
}
Tensor bucketize(Operand values, Operand boundaries, SearchOptions options) {
  in_context("bucketize", {&boundaries.tensor()}, values.where(), [&] {
    require(!boundaries.is_number() && boundaries.tensor().ndim() == 1, "the boundaries must be a vector");
  });
  return searched("bucketize", boundaries, values, options);
}

}  // namespace tessera
