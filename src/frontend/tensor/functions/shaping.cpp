// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/tensor/shaping.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tensor/number_types.h"
#include "tessera/base/checked.h"
#include "tessera/base/text.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
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

std::vector<Tensor> unbind(Operand x, int dim) {
  std::vector<Tensor> out;
  const std::int64_t total = size_along("unbind", x, dim);
  for (std::int64_t i = 0; i < total; ++i)
    out.push_back(recorded("unbind", x, [&](Value v) {
      const int d = checked_dim(v.type(), dim);
      Dims sizes = v.type().dims();
      sizes.erase(sizes.begin() + d);
      return ops::reshape(ops::slice_dim(v, d, i, i + 1), std::move(sizes));
    }));
  return out;
}

std::vector<Tensor> chunk(Operand x, std::int64_t count, int dim) {
  const std::int64_t total = size_along("chunk", x, dim);
  in_context("chunk", {&x.tensor()}, x.where(),
             [&] { require(count > 0, "needs a positive number of parts, got {}", count); });
  if (total == 0) return parts_of(x, std::vector<std::int64_t>(static_cast<std::size_t>(count), 0), dim);
  return parts_of_one_size(x, ceil_div(total, count), total, dim);
}

// ---- sizes and order ----------------------------------------------------------------------------------------------------

Tensor permute(Operand x, Dims order) { return x.tensor().permute(std::move(order), x.where()); }
Tensor transpose(Operand x, int first, int second) { return x.tensor().transpose(first, second, x.where()); }
Tensor flatten(Operand x, int start, int end) { return x.tensor().flatten(start, end, x.where()); }
Tensor expand(Operand x, Dims sizes) { return x.tensor().expand(std::move(sizes), x.where()); }

Tensor reshape(Operand x, Dims sizes) { return x.tensor().reshape(std::move(sizes), x.where()); }
Tensor view(Operand x, Dims sizes) { return x.tensor().view(std::move(sizes), x.where()); }
Tensor unsqueeze(Operand x, int dim) { return x.tensor().unsqueeze(dim, x.where()); }
Tensor squeeze(Operand x, int dim) { return x.tensor().squeeze(dim, x.where()); }
Tensor squeeze(Operand x, const std::vector<int>& dims) { return x.tensor().squeeze(dims, x.where()); }
Tensor squeeze(Operand x) { return x.tensor().squeeze(x.where()); }
Tensor broadcast_to(Operand x, Dims sizes) { return x.tensor().broadcast_to(std::move(sizes), x.where()); }
Tensor swapaxes(Operand x, int first, int second) { return x.tensor().transpose(first, second, x.where()); }

Tensor movedim(Operand x, int source, int destination) {
  return movedim(std::move(x), std::vector<int>{source}, std::vector<int>{destination});
}
Tensor movedim(Operand x, const std::vector<int>& sources, const std::vector<int>& destinations) {
  return recorded("movedim", x, [&](Value v) {
    require(sources.size() == destinations.size(), "needs a destination for each dim, got {} destinations for {} dims",
            destinations.size(), sources.size());
    // A scalar is a vector of one element here.
    const auto ndim = static_cast<std::size_t>(std::max(1, v.type().ndim()));
    Dims order(ndim, -1);
    std::vector<bool> is_moved(ndim);
    for (int i = 0; i < isize(sources); ++i) {
      const int from = checked_line_dim(v.type(), at(sources, i));
      const int to = checked_line_dim(v.type(), at(destinations, i));
      require(!at(is_moved, from) && at(order, to) < 0, "a dim is named twice: [{}] to [{}]", fmt::join(sources, ","),
              fmt::join(destinations, ","));
      is_moved[static_cast<std::size_t>(from)] = true;
      at(order, to) = from;
    }
    if (v.type().ndim() == 0) return v;
    int next = 0;
    for (auto& d : order) {
      if (d >= 0) continue;
      while (at(is_moved, next)) ++next;
      d = next++;
    }
    return ops::transpose(v, std::move(order));
  });
}

// ---- repetition ---------------------------------------------------------------------------------------------------------

namespace {

// A few copies of a dim are concatenated, so that a sharded dim stays sharded. Others are a broadcast: [c * n] is [c, n]
// with dim 0 repeated.
Value tiled(Value v, const Dims& counts) {
  constexpr std::int64_t kMostParts = 8;
  const int ndim = std::max(isize(counts), v.type().ndim());
  const auto from_end = [&](const Dims& sizes, int d) {
    const int i = d - (ndim - isize(sizes));
    return i < 0 ? std::int64_t{1} : at(sizes, i);
  };
  Dims pairs, places, kept, joined;
  std::vector<int> concatenated;
  for (int d = 0; d < ndim; ++d) {
    std::int64_t count = from_end(counts, d);
    const std::int64_t size = from_end(v.type().dims(), d);
    require(count >= 0, "the counts [{}] must not be negative", fmt::join(counts, ","));
    if (size > 1 && count > 1 && count <= kMostParts) {
      concatenated.push_back(d);
      count = 1;
    }
    if (count != 1) pairs.push_back(count);
    places.push_back(isize(pairs));
    pairs.push_back(size);
    kept.push_back(size);
    joined.push_back(count * size);
  }
  Value out = ops::reshape(ops::broadcast(ops::reshape(v, kept), pairs, places), joined);
  for (const int d : concatenated)
    out = ops::concatenate(std::vector<Value>(static_cast<std::size_t>(from_end(counts, d)), out), d);
  return out;
}

}  // namespace

Tensor clone(Operand x) { return recorded("clone", x, ops::copy); }

Tensor unflatten(Operand x, int dim, const Dims& sizes) {
  return recorded("unflatten", x, [&](Value v) {
    const int d = checked_dim(v.type(), dim);
    const std::int64_t size = v.type().dim(d);
    Checked product = 1;  // of the given sizes
    for (const std::int64_t part : sizes) product *= part == -1 ? 1 : part;
    const std::int64_t known = product.value_or_most();
    const auto open = std::count(sizes.begin(), sizes.end(), -1);
    const bool are_sizes = std::all_of(sizes.begin(), sizes.end(), [](std::int64_t part) { return part >= -1; });
    const bool fits = open == 0 ? known == size : open == 1 && known > 0 && size % known == 0;
    require(are_sizes && product.fits() && fits && !sizes.empty(),
            "the sizes [{}] do not multiply to {}, the size of dim {} of {}", fmt::join(sizes, ","), size, d, v.type());
    Dims out = v.type().dims();
    out.erase(out.begin() + d);
    for (int i = 0; i < isize(sizes); ++i)
      out.insert(out.begin() + d + i, at(sizes, i) == -1 ? size / known : at(sizes, i));
    return ops::reshape(v, std::move(out));
  });
}

Tensor tile(Operand x, const Dims& counts) {
  return recorded("tile", x, [&](Value v) { return tiled(v, counts); });
}
Tensor repeat(Operand x, const Dims& counts) {
  return recorded("repeat", x, [&](Value v) {
    require(isize(counts) >= v.type().ndim(), "needs a count for each of the {} dims of {}, got [{}]", v.type().ndim(),
            v.type(), fmt::join(counts, ","));
    return tiled(v, counts);
  });
}

// [n * c] is [n, c] with dim 1 broadcast.
Tensor repeat_interleave(Operand x, std::int64_t count, std::optional<int> dim) {
  return recorded("repeat_interleave", x, [&](Value v) {
    require(count >= 0, "the count must not be negative, got {}", count);
    const Value lines = dim ? v : ops::reshape(v, {v.type().element_count()});
    const int d = checked_dim(lines.type(), dim.value_or(0));
    Dims sizes = lines.type().dims(), pairs = sizes, places;
    at(sizes, d) *= count;
    pairs.insert(pairs.begin() + d + 1, count);
    for (int i = 0; i < lines.type().ndim(); ++i) places.push_back(i <= d ? i : i + 1);
    return ops::reshape(ops::broadcast(lines, pairs, places), sizes);
  });
}

// ---- order --------------------------------------------------------------------------------------------------------------

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
    for (const int d : dims) reversed.push_back(checked_line_dim(v.type(), d));
    return v.type().ndim() == 0 ? v : ops::reverse(v, std::move(reversed));
  });
}

// ---- padding, windows, grids --------------------------------------------------------------------------------------------

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

namespace {

// [.., n, ..] -> [.., count, size, ..]: the windows of a dim.
Value windows_along(Value v, int d, std::int64_t size, std::int64_t step) {
  const std::int64_t count = (v.type().dim(d) - size) / step + 1;
  Dims sizes = v.type().dims();
  at(sizes, d) = count;
  sizes.insert(sizes.begin() + d + 1, size);
  if (size == step) return ops::reshape(ops::slice_dim(v, d, 0, count * size), sizes);
  const Type positions = Type::array(DType::kS32, {count, size, 1});
  const Value first = ops::iota(*v.builder, positions, 0);
  const Value start = ops::multiply(first, constant_like(first, static_cast<double>(step)));
  GatherAttributes attributes;
  for (int i = 0; i < isize(sizes); ++i)
    if (i != d && i != d + 1) attributes.offset_dims.push_back(i);
  attributes.collapsed_slice_dims = {d};
  attributes.start_index_map = {d};
  attributes.index_vector_dim = 2;
  attributes.slice_sizes = v.type().dims();
  at(attributes.slice_sizes, d) = 1;
  return ops::gather(v, ops::add(start, ops::iota(*v.builder, positions, 1)), std::move(attributes));
}

}  // namespace

Tensor unfold(Operand x, int dim, std::int64_t size, std::int64_t step) {
  return recorded("unfold", x, [&](Value v) {
    const int d = checked_dim(v.type(), dim);
    require(size > 0 && step > 0, "the size and the step of windows must be positive, got {} and {}", size, step);
    require(size <= v.type().dim(d), "a window of {} does not fit into dim {} of {}", size, d, v.type());
    const Value windows = windows_along(v, d, size, step);
    Dims order;
    for (int i = 0; i < windows.type().ndim(); ++i)
      if (i != d + 1) order.push_back(i);
    order.push_back(d + 1);
    return d + 2 == windows.type().ndim() ? windows : ops::transpose(windows, std::move(order));
  });
}

std::vector<Tensor> meshgrid(const std::vector<Tensor>& axes, GridIndexing indexing, std::source_location where) {
  const auto place_of_axis = [&](int i) {
    const bool is_swapped = indexing == GridIndexing::kXy && axes.size() >= 2 && i < 2;
    return is_swapped ? 1 - i : i;
  };
  Dims sizes(axes.size(), 1);
  in_context("meshgrid", {axes.empty() ? nullptr : &axes.front()}, where, [&] {
    require(!axes.empty(), "needs at least one tensor");
    for (int i = 0; i < isize(axes); ++i) {
      const Type& type = at(axes, i).type();
      require(type.ndim() <= 1, "needs vectors, got {}", type);
      at(sizes, place_of_axis(i)) = type.element_count();
    }
  });
  std::vector<Tensor> out;
  for (int i = 0; i < isize(axes); ++i)
    out.push_back(recorded("meshgrid", Operand(at(axes, i), where), [&](Value v) {
      return ops::broadcast(ops::reshape(v, {v.type().element_count()}), sizes, {place_of_axis(i)});
    }));
  return out;
}

}  // namespace tessera
