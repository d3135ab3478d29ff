// SPDX-License-Identifier: Apache-2.0
// Convolutions, and their transposes, over one or two dims.
#include "tessera/frontend/tensor/convolutions.h"

#include <algorithm>

#include "tensor/size_of.h"
#include "tessera/base/text.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/windows.h"
#include "tracing/recorded.h"

namespace tessera {
namespace {

// The arguments of a convolution; each list has one entry, or one for each dim of the image.
struct ConvolutionArguments {
  Dims stride{1};
  Dims padding{0};
  Dims output_padding{0};
  Dims dilation{1};
  std::int64_t groups = 1;
};

void check_convolution(Value image, Value kernel, int ndim, std::string_view image_form, std::string_view kernel_form) {
  require(image.type().ndim() == ndim + 2, "x must be {}, got {}", image_form, image.type());
  require(kernel.type().ndim() == ndim + 2, "the weight must be {}, got {}", kernel_form, kernel.type());
}

// Returns the dims of a convolution of NCHW images; `rhs_input` and `rhs_output` are dims of the weight.
ConvolutionAttributes labelled(int ndim, std::int64_t rhs_input, std::int64_t rhs_output, std::int64_t groups) {
  Dims spatial;
  for (int d = 0; d < ndim; ++d) spatial.push_back(d + 2);
  ConvolutionAttributes out;
  out.dim_labels = {0, 1, spatial, rhs_input, rhs_output, spatial, 0, 1, spatial};
  out.feature_group_count = groups;
  return out;
}

Value convolved(Value image, Value kernel, int ndim, const ConvolutionArguments& arguments) {
  ConvolutionAttributes a = labelled(ndim, 1, 0, arguments.groups);
  for (int d = 0; d < ndim; ++d) {
    const auto i = static_cast<std::size_t>(d);
    WindowDim w{.size = kernel.type().dim(d + 2), .stride = size_of(arguments.stride, "stride", i)};
    w.low = w.high = size_of(arguments.padding, "padding", i);
    w.dilation = size_of(arguments.dilation, "dilation", i);
    const std::int64_t padded = image.type().dim(d + 2) + w.low + w.high;
    require(w.extent() <= padded, "a kernel of {} does not fit into dim {} of {}, which has {} elements with padding",
            w.extent(), d + 2, image.type(), padded);
    a.window.dims.push_back(w);
  }
  return ops::convolution(image, kernel, std::move(a));
}

// [in, out / groups, k..] -> [in / groups, out, k..], in which the group is the major part of the outputs.
Value with_grouped_outputs(Value kernel, std::int64_t groups) {
  const Dims& dims = kernel.type().dims();
  Dims apart = {groups, dims[0] / groups, dims[1]};
  Dims joined = {dims[0] / groups, groups * dims[1]};
  Dims permutation = {1, 0, 2};
  for (std::size_t d = 2; d < dims.size(); ++d) {
    apart.push_back(dims[d]);
    joined.push_back(dims[d]);
    permutation.push_back(static_cast<std::int64_t>(d) + 1);
  }
  return ops::reshape(ops::transpose(ops::reshape(kernel, apart), permutation), joined);
}

// Each element of x is spread over a window of the result: elements lie `stride` apart, and the kernel is reversed.
Value transposed(Value image, Value kernel, int ndim, const ConvolutionArguments& arguments) {
  const std::int64_t groups = arguments.groups;
  require(groups >= 1 && kernel.type().dim(0) % groups == 0, "{} groups do not divide the {} inputs of the weight",
          groups, kernel.type().dim(0));
  ConvolutionAttributes a = labelled(ndim, 0, 1, groups);
  for (int d = 0; d < ndim; ++d) {
    const auto i = static_cast<std::size_t>(d);
    WindowDim w{.size = kernel.type().dim(d + 2), .stride = 1};
    w.base_dilation = size_of(arguments.stride, "stride", i);
    w.dilation = size_of(arguments.dilation, "dilation", i);
    w.reversed = true;
    const std::int64_t more = size_of(arguments.output_padding, "output_padding", i);
    require(w.base_dilation >= 1 && w.dilation >= 1, "stride {} and dilation {} must be at least 1", w.base_dilation,
            w.dilation);
    require(more >= 0 && more < std::max(w.base_dilation, w.dilation),
            "output_padding {} must not be negative, and must be below stride {} or dilation {}", more, w.base_dilation,
            w.dilation);
    w.low = w.dilation * (w.size - 1) - size_of(arguments.padding, "padding", i);
    w.high = w.low + more;
    a.window.dims.push_back(w);
  }
  return ops::convolution(image, groups == 1 ? kernel : with_grouped_outputs(kernel, groups), std::move(a));
}

// Returns the matrix [size, n] that computes the mean over each of `size` windows.
Value window_means(Builder& builder, std::int64_t size, std::int64_t n, DType dtype) {
  std::vector<double> matrix(static_cast<std::size_t>(size * n));
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t first = i * n / size;
    const std::int64_t limit = ceil_div((i + 1) * n, size);
    for (std::int64_t k = first; k < limit; ++k)
      matrix[static_cast<std::size_t>(i * n + k)] = 1 / static_cast<double>(limit - first);
  }
  return narrowed(ops::constant(builder, Literal::from<double>({size, n}, matrix)), dtype);
}

// Replaces dim 2 by the means over each of `size` windows. It becomes the last dim.
Value with_means(Value v, std::int64_t size) {
  require(size >= 1, "output_size must be at least 1, got {}", size);
  return ops::dot(v, window_means(*v.builder, size, v.type().dim(2), v.type().dtype()), {{}, {2}, {}, {1}});
}

}  // namespace

Tensor conv1d(Operand x, Operand weight, const Conv1dOptions& options) {
  return recorded("conv1d", x, weight, [&](Value image, Value kernel) {
    check_convolution(image, kernel, 1, "[n, c, l]", "[out, in / groups, k]");
    return convolved(image, kernel, 1,
                     {.stride = {options.stride},
                      .padding = {options.padding},
                      .dilation = {options.dilation},
                      .groups = options.groups});
  });
}

Tensor conv2d(Operand x, Operand weight, const Conv2dOptions& options) {
  return recorded("conv2d", x, weight, [&](Value image, Value kernel) {
    check_convolution(image, kernel, 2, "an image [n, c, h, w]", "[out, in / groups, kh, kw]");
    return convolved(
        image, kernel, 2,
        {.stride = options.stride, .padding = options.padding, .dilation = options.dilation, .groups = options.groups});
  });
}

Tensor conv_transpose1d(Operand x, Operand weight, const ConvTranspose1dOptions& options) {
  return recorded("conv_transpose1d", x, weight, [&](Value image, Value kernel) {
    check_convolution(image, kernel, 1, "[n, c, l]", "[in, out / groups, k]");
    return transposed(
        image, kernel, 1,
        {{options.stride}, {options.padding}, {options.output_padding}, {options.dilation}, options.groups});
  });
}

Tensor conv_transpose2d(Operand x, Operand weight, const ConvTranspose2dOptions& options) {
  return recorded("conv_transpose2d", x, weight, [&](Value image, Value kernel) {
    check_convolution(image, kernel, 2, "an image [n, c, h, w]", "[in, out / groups, kh, kw]");
    return transposed(image, kernel, 2,
                      {options.stride, options.padding, options.output_padding, options.dilation, options.groups});
  });
}

Tensor adaptive_avg_pool2d(Operand x, const Dims& output_size) {
  const auto is_one = [](std::int64_t size) { return size == 1; };
  if (std::all_of(output_size.begin(), output_size.end(), is_one)) return adaptive_avg_pool2d(x);
  return recorded("adaptive_avg_pool2d", x, [&](Value v) {
    require(v.type().ndim() == 4, "an image [n, c, h, w] is needed, got {}", v.type());
    Value out = widened(v);
    // [n, c, h, w] -> [n, c, w, h'] -> [n, c, h', w'].
    for (std::size_t d = 0; d < 2; ++d) out = with_means(out, size_of(output_size, "output_size", d));
    return narrowed(out, v.type().dtype());
  });
}

Tensor adaptive_avg_pool1d(Operand x, std::int64_t output_size) {
  return recorded("adaptive_avg_pool1d", x, [&](Value v) {
    require(v.type().ndim() == 3, "a sequence [n, c, l] is needed, got {}", v.type());
    return narrowed(with_means(widened(v), output_size), v.type().dtype());
  });
}

}  // namespace tessera
