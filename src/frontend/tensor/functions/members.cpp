// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/tensor/members.h"

#include "tessera/frontend/tensor/indexing.h"
#include "tessera/frontend/tensor/pointwise.h"
#include "tessera/frontend/tensor/products.h"
#include "tessera/frontend/tensor/reductions.h"
#include "tessera/frontend/tensor/shaping.h"

namespace tessera {

Operand TensorMembers::self(const std::source_location& where) const {
  return {static_cast<const Tensor&>(*this), where};
}

// ---- elementwise --------------------------------------------------------------------------------------------------------

Tensor TensorMembers::abs(std::source_location where) const { return tessera::abs(self(where)); }
Tensor TensorMembers::ceil(std::source_location where) const { return tessera::ceil(self(where)); }
Tensor TensorMembers::cos(std::source_location where) const { return tessera::cos(self(where)); }
Tensor TensorMembers::erf(std::source_location where) const { return tessera::erf(self(where)); }
Tensor TensorMembers::exp(std::source_location where) const { return tessera::exp(self(where)); }
Tensor TensorMembers::expm1(std::source_location where) const { return tessera::expm1(self(where)); }
Tensor TensorMembers::floor(std::source_location where) const { return tessera::floor(self(where)); }
Tensor TensorMembers::isfinite(std::source_location where) const { return tessera::isfinite(self(where)); }
Tensor TensorMembers::isnan(std::source_location where) const { return tessera::isnan(self(where)); }
Tensor TensorMembers::log(std::source_location where) const { return tessera::log(self(where)); }
Tensor TensorMembers::log1p(std::source_location where) const { return tessera::log1p(self(where)); }
Tensor TensorMembers::reciprocal(std::source_location where) const { return tessera::reciprocal(self(where)); }
Tensor TensorMembers::relu(std::source_location where) const { return tessera::relu(self(where)); }
Tensor TensorMembers::round(std::source_location where) const { return tessera::round(self(where)); }
Tensor TensorMembers::rsqrt(std::source_location where) const { return tessera::rsqrt(self(where)); }
Tensor TensorMembers::sigmoid(std::source_location where) const { return tessera::sigmoid(self(where)); }
Tensor TensorMembers::sign(std::source_location where) const { return tessera::sign(self(where)); }
Tensor TensorMembers::sin(std::source_location where) const { return tessera::sin(self(where)); }
Tensor TensorMembers::sqrt(std::source_location where) const { return tessera::sqrt(self(where)); }
Tensor TensorMembers::square(std::source_location where) const { return tessera::square(self(where)); }
Tensor TensorMembers::tanh(std::source_location where) const { return tessera::tanh(self(where)); }
Tensor TensorMembers::pow(const Operand& exponent) const { return tessera::pow(self(exponent.where()), exponent); }
Tensor TensorMembers::clamp(ClampOptions bounds, std::source_location where) const {
  return tessera::clamp(self(where), bounds);
}
Tensor TensorMembers::masked_fill(const Operand& mask, double value) const {
  return tessera::masked_fill(self(mask.where()), mask, value);
}

// ---- products and softmax -----------------------------------------------------------------------------------------------

Tensor TensorMembers::matmul(const Tensor& rhs, std::source_location where) const {
  return tessera::matmul(self(where), {rhs, where});
}
Tensor TensorMembers::softmax(int dim, std::source_location where) const { return tessera::softmax(self(where), dim); }
Tensor TensorMembers::log_softmax(int dim, std::source_location where) const {
  return tessera::log_softmax(self(where), dim);
}
Tensor TensorMembers::logsumexp(int dim, std::source_location where) const {
  return tessera::logsumexp(self(where), dim);
}

// ---- positions and parts ------------------------------------------------------------------------------------------------

Tensor TensorMembers::gather(int dim, const Tensor& index, std::source_location where) const {
  return tessera::gather(self(where), dim, {index, where});
}
Tensor TensorMembers::index_select(int dim, const Tensor& index, std::source_location where) const {
  return tessera::index_select(self(where), dim, {index, where});
}
Tensor TensorMembers::scatter(int dim, const Tensor& index, const Tensor& source, std::source_location where) const {
  return tessera::scatter(self(where), dim, {index, where}, {source, where});
}
Tensor TensorMembers::scatter_add(int dim, const Tensor& index, const Tensor& source,
                                  std::source_location where) const {
  return tessera::scatter_add(self(where), dim, {index, where}, {source, where});
}
Tensor TensorMembers::flip(const std::vector<int>& dims, std::source_location where) const {
  return tessera::flip(self(where), dims);
}
Tensor TensorMembers::roll(std::int64_t shift, int dim, std::source_location where) const {
  return tessera::roll(self(where), shift, dim);
}
Tensor TensorMembers::tril(std::int64_t diagonal, std::source_location where) const {
  return tessera::tril(self(where), diagonal);
}
Tensor TensorMembers::triu(std::int64_t diagonal, std::source_location where) const {
  return tessera::triu(self(where), diagonal);
}
std::vector<Tensor> TensorMembers::split(std::int64_t size, int dim, std::source_location where) const {
  return tessera::split(self(where), size, dim);
}
std::vector<Tensor> TensorMembers::chunk(std::int64_t count, int dim, std::source_location where) const {
  return tessera::chunk(self(where), count, dim);
}

// ---- reductions ---------------------------------------------------------------------------------------------------------

Tensor TensorMembers::sum(ReduceOptions options, std::source_location where) const {
  return tessera::sum(self(where), std::move(options));
}
Tensor TensorMembers::mean(ReduceOptions options, std::source_location where) const {
  return tessera::mean(self(where), std::move(options));
}
Tensor TensorMembers::max(ReduceOptions options, std::source_location where) const {
  return tessera::max(self(where), std::move(options));
}
Tensor TensorMembers::min(ReduceOptions options, std::source_location where) const {
  return tessera::min(self(where), std::move(options));
}
Tensor TensorMembers::prod(ReduceOptions options, std::source_location where) const {
  return tessera::prod(self(where), std::move(options));
}
Tensor TensorMembers::any(ReduceOptions options, std::source_location where) const {
  return tessera::any(self(where), std::move(options));
}
Tensor TensorMembers::all(ReduceOptions options, std::source_location where) const {
  return tessera::all(self(where), std::move(options));
}
Tensor TensorMembers::var(VarOptions options, std::source_location where) const {
  return tessera::var(self(where), std::move(options));
}
Tensor TensorMembers::var(int dim, std::source_location where) const { return tessera::var(self(where), dim); }
Tensor TensorMembers::std(VarOptions options, std::source_location where) const {
  return tessera::std(self(where), std::move(options));
}
Tensor TensorMembers::std(int dim, std::source_location where) const { return tessera::std(self(where), dim); }
Tensor TensorMembers::norm(NormOptions options, std::source_location where) const {
  return tessera::norm(self(where), std::move(options));
}
Tensor TensorMembers::argmax(int dim, std::source_location where) const { return tessera::argmax(self(where), dim); }
Tensor TensorMembers::argmin(int dim, std::source_location where) const { return tessera::argmin(self(where), dim); }
Tensor TensorMembers::cumsum(int dim, std::source_location where) const { return tessera::cumsum(self(where), dim); }
Tensor TensorMembers::cumprod(int dim, std::source_location where) const { return tessera::cumprod(self(where), dim); }

}  // namespace tessera
