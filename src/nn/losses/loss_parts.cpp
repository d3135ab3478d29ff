// SPDX-License-Identifier: Apache-2.0
#include "losses/loss_parts.h"

#include <fmt/format.h>

#include "tessera/base/text.h"

namespace tessera::nn {

Tensor wide_float(const Tensor& x) {
  return x.dtype() == DType::kBF16 || x.dtype() == DType::kF16 ? x.to(DType::kF32) : x;
}

Tensor reduced_loss(const Tensor& losses, LossReduction reduction) {
  switch (reduction) {
    case LossReduction::kMean: return mean(losses);
    case LossReduction::kSum: return sum(losses);
    case LossReduction::kNone: return losses;
    case LossReduction::kBatchMean: return sum(losses) / static_cast<double>(losses.dim(0));
  }
  fail("an unknown reduction of a loss");
}

void check_pair(std::string_view name, const Tensor& x, const Tensor& y) {
  require(!x.is_null() && !y.is_null(), "{} needs two tensors, got a null tensor", name);
  require(is_float(x.dtype()), "{} needs floats, got {}", name, x.type());
  require(x.dims() == y.dims(), "{} needs two tensors of the same shape, got {} and {}", name, x.type(), y.type());
}

void check_loss_dims(std::string_view name, std::string_view what, const Tensor& given, const Dims& needed) {
  require(!given.is_null(), "{}: {} is null", name, what);
  require(given.dims() == needed, "{}: {} needs the shape [{}], got {}", name, what, fmt::join(needed, ","),
          given.type());
}

}  // namespace tessera::nn
