// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/tensor/shaping.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tensor/number_types.h"
#include "tessera/base/text.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tracing/recorded.h"

namespace tessera {

// ---- joining ------------------------------------------------------------------------------------------------------------

Tensor concat(const std::vector<Tensor>& parts, int dim, std::source_location where) {
  return in_context("concat", {parts.empty() ? nullptr : &parts.front()}, where, [&] {
    require(!parts.empty(), "needs at least one tensor");
    return trace().record(where, [&](Builder& builder) {
      const CalledAs scope(builder, "concat");
      std::vector<Value> values;
      for (const auto& part : parts) values.push_back(trace().use(part));
      widen_in_autocast(values);
      return ops::concatenate(values, checked_dim(values.front().type(), dim));
    });
  });
}

Tensor cat(const std::vector<Tensor>& parts, int dim, std::source_location where) { return concat(parts, dim, where); }

Tensor stack(const std::vector<Tensor>& parts, int dim, std::source_location where) {
  return in_context("stack", {parts.empty() ? nullptr : &parts.front()}, where, [&] {
    require(!parts.empty(), "needs at least one tensor");
    const Type& first = parts.front().type();
    const int d = dim < 0 ? dim + first.ndim() + 1 : dim;
    require(d >= 0 && d <= first.ndim(), "{} has no position {} for a new dim", first, dim);
    Dims sizes = first.dims();
    sizes.insert(sizes.begin() + d, 1);
    return trace().record(where, [&](Builder&) {
      std::vector<Value> values;
      for (const auto& part : parts) {
        require(part.type() == first, "all tensors must have one type, got {} and {}", first, part.type());
        values.push_back(ops::reshape(trace().use(part), sizes));
      }
      return ops::concatenate(values, d);
    });
  });
}

// ---- dividing -----------------------------------------------------------------------------------------------------------

namespace {

std::vector<Tensor> parts_of(const Operand& x, const std::vector<std::int64_t>& sizes, int dim) {
  std::vector<Tensor> out;
  std::int64_t start = 0;
  for (const auto size : sizes) {
    out.push_back(recorded(
        "split", x, [&](Value v) { return ops::slice_dim(v, checked_dim(v.type(), dim), start, start + size); }));
    start += size;
  }
  return out;
}

std::int64_t size_along(std::string_view name, const Operand& x, int dim) {
  return in_context(name, {&x.tensor()}, x.where(), [&] {
    require(!x.is_number(), "needs a tensor");
    return x.tensor().type().dim(checked_dim(x.tensor().type(), dim));
  });
}

std::vector<Tensor> parts_of_one_size(const Operand& x, std::int64_t size, std::int64_t total, int dim) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t rest = total; rest > 0; rest -= size) sizes.push_back(std::min(size, rest));
  if (sizes.empty()) sizes.push_back(0);
  return parts_of(x, sizes, dim);
}

}  // namespace

std::vector<Tensor> split(Operand x, std::int64_t size, int dim) {
  const std::int64_t total = size_along("split", x, dim);
  in_context("split", {&x.tensor()}, x.where(), [&] { require(size > 0, "the size must be positive, got {}", size); });
  return parts_of_one_size(x, size, total, dim);
}

std::vector<Tensor> split(Operand x, const std::vector<std::int64_t>& sizes, int dim) {
  const std::int64_t total = size_along("split", x, dim);
  in_context("split", {&x.tensor()}, x.where(), [&] {
    const bool fits = std::none_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size < 0; }) &&
                      std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) == total;
    require(fits, "the sizes [{}] do not add up to {}, the size of dim {}", fmt::join(sizes, ","), total, dim);
  });
  return parts_of(x, sizes, dim);
}

std::vector<Tensor> chunk(Operand x, std::int64_t count, int dim) {
  const std::int64_t total = size_along("chunk", x, dim);
  in_context("chunk", {&x.tensor()}, x.where(),
             [&] { require(count > 0, "needs a positive number of parts, got {}", count); });
  return parts_of_one_size(x, std::max<std::int64_t>(1, ceil_div(total, count)), total, dim);
}

// ---- sizes and order ----------------------------------------------------------------------------------------------------

Tensor permute(Operand x, Dims order) { return x.tensor().permute(std::move(order), x.where()); }
Tensor transpose(Operand x, int first, int second) { return x.tensor().transpose(first, second, x.where()); }
Tensor flatten(Operand x, int start, int end) { return x.tensor().flatten(start, end, x.where()); }
Tensor expand(Operand x, Dims sizes) { return x.tensor().expand(std::move(sizes), x.where()); }

// [c * n] is [c, n] with dim 0 broadcast.
Tensor tile(Operand x, const Dims& counts) {
  return recorded("tile", x, [&](Value v) {
    const int ndim = std::max(isize(counts), v.type().ndim());
    const auto from_end = [&](const Dims& sizes, int d) {
      const int i = d - (ndim - isize(sizes));
      return i < 0 ? std::int64_t{1} : at(sizes, i);
    };
    Dims pairs;
    Dims places;
    Dims kept;
    Dims joined;
    for (int d = 0; d < ndim; ++d) {
      const std::int64_t count = from_end(counts, d);
      const std::int64_t size = from_end(v.type().dims(), d);
      require(count >= 0, "the counts [{}] must not be negative", fmt::join(counts, ","));
      if (count != 1) pairs.push_back(count);
      places.push_back(isize(pairs));
      pairs.push_back(size);
      kept.push_back(size);
      joined.push_back(count * size);
    }
    return ops::reshape(ops::broadcast(ops::reshape(v, kept), pairs, places), joined);
  });
}

namespace {

Value rolled(Value x, std::int64_t shift, int d) {
  const std::int64_t size = x.type().dim(d);
  if (size == 0) return x;
  const std::int64_t by = (shift % size + size) % size;
  if (by == 0) return x;
  return ops::concatenate({ops::slice_dim(x, d, size - by, size), ops::slice_dim(x, d, 0, size - by)}, d);
}

}  // namespace

Tensor roll(Operand x, std::int64_t shift, int dim) {
  return recorded("roll", x, [&](Value v) { return rolled(v, shift, checked_dim(v.type(), dim)); });
}

Tensor roll(Operand x, const std::vector<std::int64_t>& shifts, const std::vector<int>& dims) {
  return recorded("roll", x, [&](Value v) {
    require(shifts.size() == dims.size(), "needs one shift for each dim, got {} shifts for {} dims", shifts.size(),
            dims.size());
    Value out = v;
    for (int i = 0; i < isize(dims); ++i) out = rolled(out, at(shifts, i), checked_dim(v.type(), at(dims, i)));
    return out;
  });
}

Tensor flip(Operand x, int dim) { return flip(x, std::vector<int>{dim}); }

Tensor flip(Operand x, const std::vector<int>& dims) {
  return recorded("flip", x, [&](Value v) {
    Dims reversed;
    for (const int d : dims) reversed.push_back(checked_dim(v.type(), d));
    return ops::reverse(v, std::move(reversed));
  });
}

// ---- triangles ----------------------------------------------------------------------------------------------------------

namespace {

Tensor triangle(std::string_view name, const Operand& x, CompareDirection kept, std::int64_t diagonal) {
  return recorded(name, x, [&](Value v) {
    const int ndim = v.type().ndim();
    require(ndim >= 2, "needs at least two dims, got {}", v.type());
    const Type matrix = Type::array(DType::kS32, {v.type().dim(ndim - 2), v.type().dim(ndim - 1)});
    const Value row = ops::iota(*v.builder, matrix, 0);
    const Value column = ops::iota(*v.builder, matrix, 1);
    const Value bound = diagonal == 0 ? row : ops::add(row, constant_like(row, static_cast<double>(diagonal)));
    return ops::select(ops::broadcast(ops::compare(column, bound, kept), v.type().dims(), {ndim - 2, ndim - 1}), v,
                       constant_like(v, 0));
  });
}

}  // namespace

Tensor tril(Operand x, std::int64_t diagonal) { return triangle("tril", x, CompareDirection::kLe, diagonal); }
Tensor triu(Operand x, std::int64_t diagonal) { return triangle("triu", x, CompareDirection::kGe, diagonal); }

Tensor pad(Operand x, int dim, std::int64_t low, std::int64_t high, double value) {
  return recorded("pad", x, [&](Value v) {
    std::vector<PaddingDim> padding(static_cast<std::size_t>(v.type().ndim()));
    const int d = checked_dim(v.type(), dim);
    constexpr std::int64_t kMost = std::int64_t{1} << 60;  // the op refuses larger paddings
    const bool has_size =
        low < -kMost || high < -kMost || low > kMost || high > kMost || low + high >= -v.type().dim(d);
    require(has_size, "padding {} before and {} after dim {} of {} removes more than its {} elements", low, high, d,
            v.type(), v.type().dim(d));
    at(padding, d) = {low, high, 0};
    check_number(value, v.type());
    return ops::pad(v, ops::scalar(*v.builder, v.type().dtype(), value), std::move(padding));
  });
}

}  // namespace tessera
