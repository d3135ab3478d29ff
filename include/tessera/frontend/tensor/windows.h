// SPDX-License-Identifier: Apache-2.0
// Padding with elements of the tensor, and windows of images as columns of a matrix.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/frontend/tensor/functions.h"

namespace tessera {

/// What pad() adds: a number, the elements mirrored at the edge without the edge itself, copies of the edge, or the
/// elements of the other side.
enum class PadMode : std::uint8_t { kConstant, kReflect, kReplicate, kCircular };
/// Pads the last dims, as torch.nn.functional.pad: `sizes` is {low, high} of the last dim, then those of the dim before
/// it, and so on. `value` is for kConstant, which also takes negative sizes. Errors: kReflect needs sizes below that of
/// the dim, kCircular sizes up to it.
Tensor pad(Operand x, const std::vector<std::int64_t>& sizes, PadMode mode = PadMode::kConstant, double value = 0);

struct UnfoldOptions {
  Size2d dilation = 1;
  Size2d padding = 0;
  Size2d stride = 1;
};
/// The windows of images as columns: x [n, c, h, w] -> [n, c kh kw, count], as torch.nn.functional.unfold.
Tensor unfold(Operand x, const Size2d& kernel_size, const UnfoldOptions& options = {});
/// The sum of the windows at their places: x [n, c kh kw, count] -> [n, c, h, w] with {h, w} = output_size. It is the
/// gradient of unfold().
Tensor fold(Operand x, const Size2d& output_size, const Size2d& kernel_size, const UnfoldOptions& options = {});

}  // namespace tessera
