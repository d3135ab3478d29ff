// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/embedding.h"

#include <cmath>

#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/nn/initializers.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"

namespace tessera::nn {
namespace {

Initializer with_zero_row(Initializer rows, std::int64_t zero) {
  return [rows = std::move(rows), zero](Builder& builder, const Type& type) {
    const Value values = rows(builder, type);
    const Value row = ops::iota(builder, type.with_dtype(DType::kS32), 0);
    const Value is_zero =
        ops::compare(row, ops::full(builder, row.type(), static_cast<double>(zero)), CompareDirection::kEq);
    return ops::select(is_zero, ops::full(builder, type, 0), values);
  };
}

}  // namespace

Embedding::Embedding(std::int64_t count, std::int64_t width, const Options& options)
    : padding_idx_(options.padding_idx) {
  require(count >= 1 && width >= 1, "Embedding needs a positive count and width, got {} and {}", count, width);
  Initializer rows = normal(0, options.standard_deviation);
  if (padding_idx_) {
    require(*padding_idx_ >= -count && *padding_idx_ < count, "Embedding: padding_idx {} is not one of {} rows",
            *padding_idx_, count);
    if (*padding_idx_ < 0) *padding_idx_ += count;
    rows = with_zero_row(std::move(rows), *padding_idx_);
  }
  weight_ = add_parameter("weight", Type::array(options.dtype, {count, width}), std::move(rows));
}

Tensor Embedding::forward(const Tensor& ids) {
  Tensor rows = embedding(at_call(weight_), ids);
  if (!padding_idx_) return rows;
  return where((ids == static_cast<double>(*padding_idx_)).unsqueeze(-1), rows.detach(), rows);
}

HookHandle add_embedding_noise(Embedding& embedding, double alpha) {
  require(alpha >= 0 && std::isfinite(alpha), "the noise of an embedding needs alpha >= 0, got {}", alpha);
  return embedding.register_forward_hook([alpha](Module& module, const std::vector<Tensor>&, std::vector<Tensor>& out) {
    if (!module.is_training()) return;
    Tensor& x = out.at(0);
    require(x.ndim() == 3, "the noise of an embedding needs ids [batch, time], got a result {}", x.type());
    const double most = alpha / std::sqrt(static_cast<double>(x.dim(1) * x.dim(2)));
    // Drawn in f32 for every type, as the masks of dropout.
    const Tensor unit = random_uniform(Type::array(DType::kF32, x.dims()));
    x = x + ((unit * 2.0 - 1.0) * most).to(x.dtype());
  });
}

}  // namespace tessera::nn
