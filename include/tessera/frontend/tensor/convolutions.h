// SPDX-License-Identifier: Apache-2.0
// Convolutions and pools with PyTorch's arguments, beside conv2d() and the pools of functions.h.
#pragma once

#include "tessera/frontend/tensor/functions.h"

namespace tessera {

struct Conv1dOptions {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
};
/// x [n, c, l], weight [out, c / groups, k] -> [n, out, l'] with l' = (l + 2 padding - dilation (k - 1) - 1) / stride +
/// 1.
Tensor conv1d(Operand x, Operand weight, const Conv1dOptions& options = {});

/// As for torch.nn.ConvTranspose2d; one number applies to both dims.
struct ConvTranspose2dOptions {
  Size2d stride = 1;
  Size2d padding = 0;
  Size2d output_padding = 0;  // rows and columns added at one side of the result
  Size2d dilation = 1;
  std::int64_t groups = 1;
};
/// The gradient of conv2d() with respect to its image: x [n, c, h, w], weight [c, out / groups, kh, kw] -> [n, out, h',
/// w'] with h' = (h - 1) stride - 2 padding + dilation (kh - 1) + output_padding + 1.
Tensor conv_transpose2d(Operand x, Operand weight, const ConvTranspose2dOptions& options = {});

struct ConvTranspose1dOptions {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t output_padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
};
/// The same for x [n, c, l] and weight [c, out / groups, k].
Tensor conv_transpose1d(Operand x, Operand weight, const ConvTranspose1dOptions& options = {});

struct Pool1dOptions {
  std::int64_t kernel_size = 1;
  std::int64_t stride = 0;  // 0: kernel_size
  std::int64_t padding = 0;
  std::int64_t dilation = 1;      // max_pool1d only
  bool ceil_mode = false;         // a last window may extend past the end
  bool count_include_pad = true;  // of avg_pool1d
};
/// As max_pool2d and avg_pool2d, for x [n, c, l].
Tensor max_pool1d(Operand x, const Pool1dOptions& options);
Tensor avg_pool1d(Operand x, const Pool1dOptions& options);
/// As adaptive_avg_pool2d, for x [n, c, l] -> [n, c, output_size].
Tensor adaptive_avg_pool1d(Operand x, std::int64_t output_size);

/// The mean over each of `output_size` windows that together cover the image: window i of a dim of n elements has the
/// elements from floor(i n / size) to ceil((i + 1) n / size). `output_size` is one number for both dims, or two.
Tensor adaptive_avg_pool2d(Operand x, const Dims& output_size);

}  // namespace tessera
