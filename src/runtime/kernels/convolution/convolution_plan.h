// SPDX-License-Identifier: Apache-2.0
// A convolution in oneDNN's words: HLO says with one op what oneDNN calls three.
//
//   forward           result = image * kernel
//   backward data     the kernel turned round: result = the image's gradient, lhs = that of the map, spread by the stride
//   backward weights  windows larger than the result, or groups in the batch: result = the kernel's gradient, rhs = that of the map
//
// Each works on image [n, c, ..], weights [g, o, i, ..] and map [n, o, ..]: HLO's arrays under other strides.
#pragma once

#include <array>

#include "kernels/kernel.h"

namespace tessera::convolution {

enum class Form : std::uint8_t { kForward, kBackwardData, kBackwardWeights };
enum Part : std::uint8_t { kImage, kWeights, kMap };

/// One of the three arrays, as HLO lays it out.
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

  /// Operand by part; -1: the result.
  [[nodiscard]] std::array<int, 3> operands() const {
    if (form == Form::kForward) return {0, 1, -1};
    return form == Form::kBackwardData ? std::array<int, 3>{-1, 1, 0} : std::array<int, 3>{0, -1, 1};
  }
};

/// Of f32 and bf16. Nothing where oneDNN has no word for it.
std::optional<Plan> plan_convolution(const OpView& view);

/// Of windows of one element: matrix products where the arrays lie. Null for other windows and types, and where no kernel takes
/// the products.
KernelRef make_pointwise(const Plan& plan);

}  // namespace tessera::convolution
