// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/convolution.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tessera/base/text.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/nn/initializers.h"

namespace tessera::nn {
namespace {

// Returns two entries for one or two.
Dims kernel_dims(std::string_view name, const Dims& kernel_size) {
  require(kernel_size.size() == 1 || kernel_size.size() == 2, "{}: kernel_size needs one number or two, got {}", name,
          kernel_size.size());
  require(kernel_size.front() >= 1 && kernel_size.back() >= 1, "{}: kernel_size must be at least 1, got {}", name,
          fmt::join(kernel_size, " x "));
  return {kernel_size.front(), kernel_size.back()};
}

void check_channels(std::string_view name, std::int64_t in, std::int64_t out, std::int64_t groups) {
  require(groups >= 1 && in % groups == 0 && out % groups == 0, "{}: {} groups do not divide {} and {} channels", name,
          groups, in, out);
}

// Returns the bound of PyTorch's initial values of a weight: 1/sqrt of all its elements beyond dim 0.
double bound_of(const Dims& weight) {
  const auto fan_in = std::accumulate(weight.begin() + 1, weight.end(), std::int64_t{1}, std::multiplies<>());
  return 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(fan_in, 1)));
}

// `spatial` has the dims after the channels, such as `h, w`.
void check_input(std::string_view name, const Tensor& x, std::int64_t channels, std::string_view spatial) {
  (void)library_call({&x}, trace().call_site(std::source_location::current()), [&] {
    const auto ndim = 3 + std::count(spatial.begin(), spatial.end(), ',');
    require(x.ndim() == ndim && x.dim(1) == channels, "{} of {} channels needs x [n, {}, {}], got {}", name, channels,
            channels, spatial, x.type());
    return x;
  });
}

// An input whose padding conv1d() or conv2d() adds, or with all of its padding already added.
struct PaddedInput {
  Tensor x;
  Dims padding;
};
// `kernel` has one entry for each spatial dim.
PaddedInput with_padding(const Tensor& x, const Dims& kernel, const Dims& padding, const Dims& dilation, PadMode mode) {
  const auto of_dim = [](const Dims& of, int i) { return of.size() == 1 ? of.front() : at(of, i); };
  PaddedInput out{x, {}};
  std::vector<std::int64_t> around;  // the last dim first, as pad() takes them
  bool is_separate = mode != PadMode::kConstant;
  for (int i = 0; i < isize(kernel); ++i) {
    const bool is_same = of_dim(padding, i) == kSamePadding;
    const std::int64_t total = is_same ? of_dim(dilation, i) * (at(kernel, i) - 1) : 2 * of_dim(padding, i);
    around.insert(around.begin(), {total / 2, total - total / 2});
    out.padding.push_back(total / 2);
    is_separate = is_separate || total % 2 != 0;
  }
  if (!is_separate) return out;
  return {pad(at_call(x), around, mode), Dims(kernel.size(), 0)};
}

void check_same_padding(std::string_view name, const Dims& padding, const Dims& stride) {
  const bool is_same = std::count(padding.begin(), padding.end(), kSamePadding) > 0;
  const bool moves = std::any_of(stride.begin(), stride.end(), [](std::int64_t each) { return each != 1; });
  require(!is_same || !moves, "{}: kSamePadding requires stride 1, got {}", name, fmt::join(stride, " x "));
}

Tensor with_bias(const Tensor& y, const Tensor& bias) { return bias.is_null() ? y : at_call(y) + per_channel(bias, y); }

}  // namespace

Conv1d::Conv1d(std::int64_t in, std::int64_t out, std::int64_t kernel_size, const Options& options)
    : options_(options) {
  check_channels("Conv1d", in, out, options.groups);
  check_same_padding("Conv1d", {options.padding}, {options.stride});
  const Dims dims = {out, in / options.groups, kernel_dims("Conv1d", {kernel_size}).front()};
  const double bound = bound_of(dims);
  weight_ = add_parameter("weight", Type::array(options.dtype, dims), uniform(-bound, bound));
  if (options.bias) bias_ = add_parameter("bias", Type::array(options.dtype, {out}), uniform(-bound, bound));
}

Tensor Conv1d::forward(const Tensor& x) {
  check_input("Conv1d", x, weight_.dim(1) * options_.groups, "l");
  const PaddedInput input =
      with_padding(x, {weight_.dim(2)}, {options_.padding}, {options_.dilation}, options_.padding_mode);
  return with_bias(
      conv1d(at_call(input.x), weight_, {options_.stride, input.padding.front(), options_.dilation, options_.groups}),
      bias_);
}

Conv2d::Conv2d(std::int64_t in, std::int64_t out, const Size2d& kernel_size, const Options& options)
    : options_(options) {
  check_channels("Conv2d", in, out, options.groups);
  check_same_padding("Conv2d", options.padding, options.stride);
  const Dims kernel = kernel_dims("Conv2d", kernel_size);
  const Dims dims = {out, in / options.groups, kernel[0], kernel[1]};
  const double bound = bound_of(dims);
  weight_ = add_parameter("weight", Type::array(options.dtype, dims),
                          options.weight_initializer ? options.weight_initializer : uniform(-bound, bound));
  if (options.bias) bias_ = add_parameter("bias", Type::array(options.dtype, {out}), uniform(-bound, bound));
}

Tensor Conv2d::forward(const Tensor& x) {
  check_input("Conv2d", x, weight_.dim(1) * options_.groups, "h, w");
  const PaddedInput input =
      with_padding(x, {weight_.dim(2), weight_.dim(3)}, options_.padding, options_.dilation, options_.padding_mode);
  return with_bias(
      conv2d(at_call(input.x), weight_, {options_.stride, input.padding, options_.dilation, options_.groups}), bias_);
}

ConvTranspose1d::ConvTranspose1d(std::int64_t in, std::int64_t out, std::int64_t kernel_size, const Options& options)
    : options_(options) {
  check_channels("ConvTranspose1d", in, out, options.groups);
  const Dims dims = {in, out / options.groups, kernel_dims("ConvTranspose1d", {kernel_size}).front()};
  const double bound = bound_of(dims);
  weight_ = add_parameter("weight", Type::array(options.dtype, dims), uniform(-bound, bound));
  if (options.bias) bias_ = add_parameter("bias", Type::array(options.dtype, {out}), uniform(-bound, bound));
}

Tensor ConvTranspose1d::forward(const Tensor& x) {
  check_input("ConvTranspose1d", x, weight_.dim(0), "l");
  return with_bias(conv_transpose1d(at_call(x), weight_,
                                    {options_.stride, options_.padding, options_.output_padding, options_.dilation,
                                     options_.groups}),
                   bias_);
}

ConvTranspose2d::ConvTranspose2d(std::int64_t in, std::int64_t out, const Size2d& kernel_size, const Options& options)
    : options_(options) {
  check_channels("ConvTranspose2d", in, out, options.groups);
  const Dims kernel = kernel_dims("ConvTranspose2d", kernel_size);
  const Dims dims = {in, out / options.groups, kernel[0], kernel[1]};
  const double bound = bound_of(dims);
  weight_ = add_parameter("weight", Type::array(options.dtype, dims), uniform(-bound, bound));
  if (options.bias) bias_ = add_parameter("bias", Type::array(options.dtype, {out}), uniform(-bound, bound));
}

Tensor ConvTranspose2d::forward(const Tensor& x) {
  check_input("ConvTranspose2d", x, weight_.dim(0), "h, w");
  return with_bias(conv_transpose2d(at_call(x), weight_,
                                    {options_.stride, options_.padding, options_.output_padding, options_.dilation,
                                     options_.groups}),
                   bias_);
}

}  // namespace tessera::nn
