// SPDX-License-Identifier: Apache-2.0
// Describes a convolution in oneDNN's terms. One HLO op covers three operations of oneDNN:
//
//   forward           result = image * kernel
//   backward data     reversed kernel: result = gradient of the image, lhs = gradient of the map, dilated by the stride
//   backward weights  windows larger than the result, or batch groups: result = gradient of the kernel, rhs = gradient
//   of the map
//
// Each works on image [n, c, ..], weights [g, o, i, ..] and map [n, o, ..], which are HLO's arrays with other strides.
#pragma once

#include <array>

#include "kernels/kernel.h"

namespace tessera::convolution {

enum class Form : std::uint8_t { kForward, kBackwardData, kBackwardWeights };
enum Part : std::uint8_t { kImage, kWeights, kMap };

/// One of the three arrays in HLO's layout.
struct Side {
  Dims dims;
  Dims strides;
  std::int64_t offset = 0;  // elements
  DType type = DType::kF32;
};

struct Plan {
  Form form = Form::kForward;
  std::array<Side, 3> sides;
  Dims strides, dilates, low, high;  // dilates: 0 for none

  /// Returns the operand number of each part; -1: the result.
  [[nodiscard]] std::array<int, 3> operands() const {
    if (form == Form::kForward) return {0, 1, -1};
    return form == Form::kBackwardData ? std::array<int, 3>{-1, 1, 0} : std::array<int, 3>{0, -1, 1};
  }
};

/// Plans convolutions of f32 and bf16. Returns nothing for those that oneDNN does not support.
std::optional<Plan> plan_convolution(const OpView& view);

/// Turns convolutions with windows of one element into matrix products without copies. Returns null for other windows
/// and types, and if no kernel supports the products.
KernelRef make_pointwise(const Plan& plan);

/// Returns the stride of the positions of an image or map as one merged dim, or nothing if they cannot be merged.
std::optional<std::int64_t> stride_of_places(const Side& side);

/// Runs convolutions of f32 with windows of one element as one product over all images. Returns null for other windows
/// and types, for places that are not contiguous, for small products, and for images that are large enough for a product
/// each.
KernelRef make_merged_pointwise(const Plan& plan);

/// Runs convolutions of f32 with windows of three by three elements, steps of one and no dilation by Winograd's
/// algorithm. Returns null for others, and for images without contiguous rows, few features or few tiles.
KernelRef make_winograd(const Plan& plan);

}  // namespace tessera::convolution
