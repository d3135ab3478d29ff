// SPDX-License-Identifier: Apache-2.0
// What the losses have in common.
#pragma once

#include <string_view>

#include "tessera/nn/losses.h"

namespace tessera::nn {

/// f32 for narrower floats.
Tensor wide_float(const Tensor& x);
/// Applies the reduction to the losses of all elements.
Tensor reduced_loss(const Tensor& losses, LossReduction reduction);
/// Error unless x and y have floats and equal dims. A loss that broadcasts is nearly always a mistake.
void check_pair(std::string_view name, const Tensor& x, const Tensor& y);
/// Error unless the tensor has the dims that the loss needs.
void check_loss_dims(std::string_view name, std::string_view what, const Tensor& given, const Dims& needed);

}  // namespace tessera::nn
