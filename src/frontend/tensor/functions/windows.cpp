// SPDX-License-Identifier: Apache-2.0
// Windows of an image are a gather at positions of the image as a vector, and their sum is a scatter.
#include "tessera/frontend/tensor/windows.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "tessera/base/checked.h"
#include "tessera/base/text.h"
#include "tracing/error_context.h"

namespace tessera {
namespace {

using Pair = std::array<std::int64_t, 2>;

// x with `low` elements before and `high` elements after dim d.
Tensor padded(const Tensor& x, int d, std::int64_t low, std::int64_t high, PadMode mode,
              const std::source_location& where) {
  if (low == 0 && high == 0) return x;
  const std::int64_t size = x.dim(d);
  const auto part = [&](std::int64_t start, std::int64_t count) { return x.narrow(d, start, count, where); };
  const auto edge = [&](std::int64_t start, std::int64_t count) {
    return repeat_interleave({part(start, 1), where}, count, d);
  };
  std::vector<Tensor> parts;
  if (mode == PadMode::kReflect)
    parts = {part(1, low).flip(d, where), x, part(size - 1 - high, high).flip(d, where)};
  else if (mode == PadMode::kReplicate)
    parts = {edge(0, low), x, edge(size - 1, high)};
  else
    parts = {part(size - low, low), x, part(0, high)};
  if (high == 0) parts.pop_back();
  if (low == 0) parts.erase(parts.begin());
  return cat(parts, d, where);
}

void check_padding(const Type& type, int d, std::int64_t low, std::int64_t high, PadMode mode) {
  const std::int64_t size = type.dim(d);
  const std::int64_t most = mode == PadMode::kReflect ? size - 1 : size;
  require(low >= 0 && high >= 0, "only a constant padding may be negative, got {} and {}", low, high);
  require(mode == PadMode::kReplicate ? size > 0 : low <= most && high <= most,
          "padding {} before and {} after dim {} of {} needs more elements than the dim has", low, high, d, type);
}

}  // namespace

Tensor pad(Operand x, const std::vector<std::int64_t>& sizes, PadMode mode, double value) {
  const int count = isize(sizes) / 2;
  in_context("pad", {&x.tensor()}, x.where(), [&] {
    require(!x.is_number() && sizes.size() % 2 == 0 && count <= x.tensor().ndim(),
            "needs two sizes for each of the last dims, got [{}]", fmt::join(sizes, ","));
    for (int i = 0; mode != PadMode::kConstant && i < count; ++i)
      check_padding(x.tensor().type(), x.tensor().ndim() - 1 - i, at(sizes, 2 * i), at(sizes, 2 * i + 1), mode);
  });
  Tensor out = x.tensor();
  for (int i = 0; i < count; ++i) {
    const int d = out.ndim() - 1 - i;
    const std::int64_t low = at(sizes, 2 * i), high = at(sizes, 2 * i + 1);
    out = mode == PadMode::kConstant ? pad(Operand(out, x.where()), d, low, high, value)
                                     : padded(out, d, low, high, mode, x.where());
  }
  return out;
}

namespace {

Pair pair_of(const Size2d& size) {
  const Dims& sizes = size;
  require(sizes.size() == 1 || sizes.size() == 2, "needs one size or two, got [{}]", fmt::join(sizes, ","));
  return {sizes.front(), sizes.back()};
}

// The windows of an image that has the size `image` after padding.
struct Windows {
  Pair image, kernel, dilation, padding, stride, count;
};

Windows windows_of(const Pair& unpadded, const Size2d& kernel_size, const UnfoldOptions& options) {
  Windows out{
      unpadded, pair_of(kernel_size), pair_of(options.dilation), pair_of(options.padding), pair_of(options.stride), {}};
  for (std::size_t i = 0; i < 2; ++i) {
    require(out.kernel[i] > 0 && out.dilation[i] > 0 && out.stride[i] > 0 && out.padding[i] >= 0,
            "kernel_size, dilation and stride must be positive, and padding must not be negative");
    const Checked padded = Checked(out.image[i]) + Checked(2) * out.padding[i];
    const Checked within = Checked(out.dilation[i]) * (out.kernel[i] - 1) + 1;
    require(padded.fits() && within.fits(), "a size with its padding or a window exceeds 64 bits");
    out.image[i] = padded.value();
    const std::int64_t extent = within.value();
    require(extent <= out.image[i], "a window of {} does not fit into the padded size {}", extent, out.image[i]);
    out.count[i] = (out.image[i] - extent) / out.stride[i] + 1;
  }
  const Checked elements = Checked(out.image[0]) * out.image[1];
  require(elements.fits() && std::in_range<std::int32_t>(elements.value()),
          "an image of {} x {} has more positions than s32 numbers", out.image[0], out.image[1]);
  return out;
}

// The position in the padded image, as a vector, of each element of each window: [kh kw count].
Tensor positions_in(const Windows& w, const std::source_location& where) {
  const auto along = [&](std::size_t i) {
    const Tensor first = arange(w.count[i], kS32, where) * static_cast<double>(w.stride[i]);
    const Tensor within = arange(w.kernel[i], kS32, where) * static_cast<double>(w.dilation[i]);
    return within.unsqueeze(1, where) + first;  // [k, count]
  };
  const Tensor rows = along(0) * static_cast<double>(w.image[1]);
  const Tensor positions =
      rows.reshape({w.kernel[0], 1, w.count[0], 1}, where) + along(1).reshape({1, w.kernel[1], 1, w.count[1]}, where);
  return positions.reshape({-1}, where);
}

std::int64_t product_of(const Pair& sizes) { return sizes[0] * sizes[1]; }

}  // namespace

Tensor unfold(Operand x, const Size2d& kernel_size, const UnfoldOptions& options) {
  const auto& where = x.where();
  Windows w;
  in_context("unfold", {&x.tensor()}, where, [&] {
    require(!x.is_number() && x.tensor().ndim() == 4, "needs images [n, c, h, w]");
    w = windows_of({x.tensor().dim(2), x.tensor().dim(3)}, kernel_size, options);
  });
  const std::int64_t n = x.tensor().dim(0), c = x.tensor().dim(1);
  const Tensor image = pad(x, {w.padding[1], w.padding[1], w.padding[0], w.padding[0]});
  const Tensor windows = index_select({image.flatten(2, 3, where), where}, 2, {positions_in(w, where), where});
  return windows.reshape({n, c * product_of(w.kernel), product_of(w.count)}, where);
}

Tensor fold(Operand x, const Size2d& output_size, const Size2d& kernel_size, const UnfoldOptions& options) {
  const auto& where = x.where();
  Windows w;
  Pair size{};
  in_context("fold", {&x.tensor()}, where, [&] {
    size = pair_of(output_size);
    w = windows_of(size, kernel_size, options);
    const std::int64_t each = product_of(w.kernel), count = product_of(w.count);
    require(!x.is_number() && x.tensor().ndim() == 3, "needs columns [n, c kh kw, count]");
    require(x.tensor().dim(1) % each == 0 && x.tensor().dim(2) == count,
            "needs columns [n, a multiple of {}, {}], got {}", each, count, x.tensor().type());
  });
  const std::int64_t n = x.tensor().dim(0), c = x.tensor().dim(1) / product_of(w.kernel);
  const Tensor columns = x.tensor().reshape({n, c, -1}, where);
  const Tensor empty = zeros({n, c, product_of(w.image)}, x.tensor().dtype(), where);
  const Tensor sum = index_add({empty, where}, 2, {positions_in(w, where), where}, {columns, where});
  const Tensor image = sum.reshape({n, c, w.image[0], w.image[1]}, where);
  return image.narrow(2, w.padding[0], size[0], where).narrow(3, w.padding[1], size[1], where);
}

}  // namespace tessera
