// SPDX-License-Identifier: Apache-2.0
// Pools of sequences [n, c, l] and images [n, c, h, w], and functions of the channels of [n, c, ...].
#include <algorithm>

#include "tensor/size_of.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tensor/convolutions.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tessera/ops/windows.h"
#include "tracing/recorded.h"

namespace tessera {
namespace {

void check_image(Value x) { require(x.type().ndim() == 4, "an image [n, c, h, w] is needed, got {}", x.type()); }

void check_sequence(Value x) { require(x.type().ndim() == 3, "a sequence [n, c, l] is needed, got {}", x.type()); }

void check_channels(Value x) { require(x.type().ndim() >= 2, "[n, c, ...] is needed, got {}", x.type()); }

Dims all_but_channels(const Type& type) {
  Dims out{0};
  for (int d = 2; d < type.ndim(); ++d) out.push_back(d);
  return out;
}

Value spread(Value channels, const Type& image) {
  Dims dims = image.dims();  // before more is recorded
  return ops::broadcast(narrowed(channels, image.dtype()), std::move(dims), {1});
}

WindowDim pooling_dim(const Pool2dOptions& options, std::int64_t size, std::size_t dim) {
  WindowDim w;
  w.size = size_of(options.kernel_size, "kernel_size", dim);
  const Dims& stride = options.stride;
  w.stride = stride.empty() ? w.size : size_of(stride, "stride", dim);
  w.low = w.high = size_of(options.padding, "padding", dim);
  w.dilation = size_of(options.dilation, "dilation", dim);
  require(w.size >= 1 && w.stride >= 1 && w.dilation >= 1 && w.low >= 0,
          "kernel_size {}, stride {} and dilation {} must be at least 1, and padding {} at least 0", w.size, w.stride,
          w.dilation, w.low);
  require(2 * w.low <= w.size, "padding {} is more than half of kernel_size {}", w.low, w.size);
  const auto positions = size + 2 * w.low - w.extent();
  require(positions >= 0, "a kernel of {} does not fit into {}", w.extent(), size + 2 * w.low);
  if (!options.ceil_mode) return w;
  auto count = ceil_div(positions, w.stride) + 1;
  // The last window must start inside the image or its low padding.
  if ((count - 1) * w.stride >= size + w.low) --count;
  w.high = (count - 1) * w.stride + w.extent() - size - w.low;
  return w;
}

// Of a sequence or an image.
WindowDims pooling_window(const Pool2dOptions& options, const Type& type) {
  WindowDims out{{WindowDim{}, WindowDim{}}};
  for (int d = 2; d < type.ndim(); ++d)
    out.dims.push_back(pooling_dim(options, type.dim(d), static_cast<std::size_t>(d - 2)));
  return out;
}

// Returns the number of elements by which the sum of each window along a dim is divided: those inside the image, or
// those inside the padded image.
std::vector<double> divisors(const WindowDim& w, std::int64_t size, std::int64_t padding, bool with_padding) {
  std::vector<double> out;
  for (std::int64_t o = 0; o < w.count(size); ++o) {
    const auto start = o * w.stride - w.low;
    const auto low = with_padding ? -w.low : 0;
    const auto limit = with_padding ? size + padding : size;
    out.push_back(static_cast<double>(std::min(start + w.size, limit) - std::max(start, low)));
  }
  return out;
}

Value divided(Value sums, const std::vector<double>& by, int dim) {
  Builder& builder = *sums.builder;
  const bool alike = std::adjacent_find(by.begin(), by.end(), std::not_equal_to<>()) == by.end();
  if (alike) return by.empty() ? sums : ops::divide(sums, trace().full(sums.type(), by.front()));
  const Value vector = ops::constant(builder, Literal::from<double>({isize(by)}, by));
  return ops::divide(sums, ops::broadcast(narrowed(vector, sums.type().dtype()), sums.type().dims(), {dim}));
}

Value window_maximum(Value v, const Pool2dOptions& options) {
  return ops::reduce_window(v, Reduction::kMax, pooling_window(options, v.type()));
}

Value window_mean(Value v, const Pool2dOptions& options) {
  require(options.dilation == Dims({1}), "average pooling does not support dilation");
  const WindowDims window = pooling_window(options, v.type());
  Value sums = ops::reduce_window(widened(v), Reduction::kSum, window);
  for (int d = 2; d < v.type().ndim(); ++d)
    sums = divided(
        sums,
        divisors(at(window.dims, d), v.type().dim(d),
                 size_of(options.padding, "padding", static_cast<std::size_t>(d - 2)), options.count_include_pad),
        d);
  return narrowed(sums, v.type().dtype());
}

Pool2dOptions of_one_dim(const Pool1dOptions& options) {
  return {.kernel_size = options.kernel_size,
          .stride = options.stride == 0 ? Dims{} : Dims{options.stride},
          .padding = options.padding,
          .dilation = options.dilation,
          .ceil_mode = options.ceil_mode,
          .count_include_pad = options.count_include_pad};
}

}  // namespace

Tensor max_pool2d(Operand x, const Pool2dOptions& options) {
  return recorded("max_pool2d", x, [&](Value v) {
    check_image(v);
    return window_maximum(v, options);
  });
}

Tensor avg_pool2d(Operand x, const Pool2dOptions& options) {
  return recorded("avg_pool2d", x, [&](Value v) {
    check_image(v);
    return window_mean(v, options);
  });
}

Tensor max_pool1d(Operand x, const Pool1dOptions& options) {
  return recorded("max_pool1d", x, [&](Value v) {
    check_sequence(v);
    return window_maximum(v, of_one_dim(options));
  });
}

Tensor avg_pool1d(Operand x, const Pool1dOptions& options) {
  return recorded("avg_pool1d", x, [&](Value v) {
    check_sequence(v);
    return window_mean(v, of_one_dim(options));
  });
}

Tensor adaptive_avg_pool2d(Operand x) {
  in_context("adaptive_avg_pool2d", {&x.tensor()}, x.where(),
             [&] { require(x.tensor().ndim() == 4, "an image [n, c, h, w] is needed, got {}", x.tensor().type()); });
  return mean(x, {.dims = {2, 3}, .keep_dims = true});
}

ChannelStatistics channel_statistics(Operand x) {
  ChannelStatistics out;
  const auto average = [](Value v) {
    const Value total = ops::reduce(v, Reduction::kSum, all_but_channels(v.type()));
    const auto count =
        static_cast<double>(v.type().element_count()) / static_cast<double>(total.type().element_count());
    return ops::multiply(total, trace().full(total.type(), 1 / count));
  };
  Value mean;
  out.variance = recorded("channel_statistics", x, [&](Value v) {
    check_channels(v);
    const Value wide = widened(v);
    mean = average(wide);
    // For every number c, the variance is mean((x - c)²) - (mean(x) - c)². If c is the mean without its gradient, the
    // second term is 0 and so is its first derivative: the backward pass needs no sum over the centered values.
    const Value fixed = stop_gradient(mean);
    const Value centered = ops::subtract(wide, spread(fixed, wide.type()));
    const Value rest = ops::subtract(mean, fixed);
    return ops::subtract(average(ops::multiply(centered, centered)), ops::multiply(rest, rest));
  });
  out.mean = trace().wrap(mean);
  return out;
}

Tensor normalize_channels(Operand x, Operand mean, Operand variance, double epsilon) {
  return recorded("normalize_channels", x, [&](Value v) {
    check_channels(v);
    const Value wide = widened(v);
    const auto type = wide.type().dtype();
    const Value centered = ops::subtract(wide, spread(operand_value(mean), wide.type()));
    const Value spread_out = narrowed(operand_value(variance), type);
    const Value scale = ops::rsqrt(ops::add(spread_out, trace().full(spread_out.type(), epsilon)));
    return narrowed(ops::multiply(centered, spread(scale, wide.type())), v.type().dtype());
  });
}

Tensor per_channel(Operand vector, const Tensor& x) {
  return recorded("per_channel", vector, [&](Value v) {
    require(v.type().ndim() == 1 && x.ndim() >= 2 && v.type().dim(0) == x.dim(1),
            "{} does not have one element per channel of {}", v.type(), x.type());
    return ops::broadcast(narrowed(v, x.dtype()), x.dims(), {1});
  });
}

}  // namespace tessera
