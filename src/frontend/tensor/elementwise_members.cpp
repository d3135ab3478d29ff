// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/tensor/elementwise_members.h"

#include "tessera/frontend/tensor/pointwise.h"

namespace tessera {

Operand ElementwiseMembers::self(const std::source_location& where) const {
  return {static_cast<const Tensor&>(*this), where};
}

// ---- of one tensor ------------------------------------------------------------------------------------------------------

Tensor ElementwiseMembers::abs(std::source_location where) const { return tessera::abs(self(where)); }
Tensor ElementwiseMembers::acos(std::source_location where) const { return tessera::acos(self(where)); }
Tensor ElementwiseMembers::acosh(std::source_location where) const { return tessera::acosh(self(where)); }
Tensor ElementwiseMembers::asin(std::source_location where) const { return tessera::asin(self(where)); }
Tensor ElementwiseMembers::asinh(std::source_location where) const { return tessera::asinh(self(where)); }
Tensor ElementwiseMembers::atan(std::source_location where) const { return tessera::atan(self(where)); }
Tensor ElementwiseMembers::atanh(std::source_location where) const { return tessera::atanh(self(where)); }
Tensor ElementwiseMembers::ceil(std::source_location where) const { return tessera::ceil(self(where)); }
Tensor ElementwiseMembers::cos(std::source_location where) const { return tessera::cos(self(where)); }
Tensor ElementwiseMembers::cosh(std::source_location where) const { return tessera::cosh(self(where)); }
Tensor ElementwiseMembers::erf(std::source_location where) const { return tessera::erf(self(where)); }
Tensor ElementwiseMembers::exp(std::source_location where) const { return tessera::exp(self(where)); }
Tensor ElementwiseMembers::exp2(std::source_location where) const { return tessera::exp2(self(where)); }
Tensor ElementwiseMembers::expm1(std::source_location where) const { return tessera::expm1(self(where)); }
Tensor ElementwiseMembers::floor(std::source_location where) const { return tessera::floor(self(where)); }
Tensor ElementwiseMembers::frac(std::source_location where) const { return tessera::frac(self(where)); }
Tensor ElementwiseMembers::gelu(std::source_location where) const { return tessera::gelu(self(where)); }
Tensor ElementwiseMembers::gelu_new(std::source_location where) const { return tessera::gelu_new(self(where)); }
Tensor ElementwiseMembers::hardsigmoid(std::source_location where) const { return tessera::hardsigmoid(self(where)); }
Tensor ElementwiseMembers::hardswish(std::source_location where) const { return tessera::hardswish(self(where)); }
Tensor ElementwiseMembers::isfinite(std::source_location where) const { return tessera::isfinite(self(where)); }
Tensor ElementwiseMembers::isinf(std::source_location where) const { return tessera::isinf(self(where)); }
Tensor ElementwiseMembers::isnan(std::source_location where) const { return tessera::isnan(self(where)); }
Tensor ElementwiseMembers::isneginf(std::source_location where) const { return tessera::isneginf(self(where)); }
Tensor ElementwiseMembers::isposinf(std::source_location where) const { return tessera::isposinf(self(where)); }
Tensor ElementwiseMembers::log(std::source_location where) const { return tessera::log(self(where)); }
Tensor ElementwiseMembers::log10(std::source_location where) const { return tessera::log10(self(where)); }
Tensor ElementwiseMembers::log1p(std::source_location where) const { return tessera::log1p(self(where)); }
Tensor ElementwiseMembers::log2(std::source_location where) const { return tessera::log2(self(where)); }
Tensor ElementwiseMembers::log_sigmoid(std::source_location where) const { return tessera::log_sigmoid(self(where)); }
Tensor ElementwiseMembers::logical_not(std::source_location where) const { return tessera::logical_not(self(where)); }
Tensor ElementwiseMembers::mish(std::source_location where) const { return tessera::mish(self(where)); }
Tensor ElementwiseMembers::reciprocal(std::source_location where) const { return tessera::reciprocal(self(where)); }
Tensor ElementwiseMembers::relu(std::source_location where) const { return tessera::relu(self(where)); }
Tensor ElementwiseMembers::relu6(std::source_location where) const { return tessera::relu6(self(where)); }
Tensor ElementwiseMembers::round(std::source_location where) const { return tessera::round(self(where)); }
Tensor ElementwiseMembers::rsqrt(std::source_location where) const { return tessera::rsqrt(self(where)); }
Tensor ElementwiseMembers::selu(std::source_location where) const { return tessera::selu(self(where)); }
Tensor ElementwiseMembers::sigmoid(std::source_location where) const { return tessera::sigmoid(self(where)); }
Tensor ElementwiseMembers::sign(std::source_location where) const { return tessera::sign(self(where)); }
Tensor ElementwiseMembers::silu(std::source_location where) const { return tessera::silu(self(where)); }
Tensor ElementwiseMembers::sin(std::source_location where) const { return tessera::sin(self(where)); }
Tensor ElementwiseMembers::sinc(std::source_location where) const { return tessera::sinc(self(where)); }
Tensor ElementwiseMembers::sinh(std::source_location where) const { return tessera::sinh(self(where)); }
Tensor ElementwiseMembers::sqrt(std::source_location where) const { return tessera::sqrt(self(where)); }
Tensor ElementwiseMembers::square(std::source_location where) const { return tessera::square(self(where)); }
Tensor ElementwiseMembers::tan(std::source_location where) const { return tessera::tan(self(where)); }
Tensor ElementwiseMembers::tanh(std::source_location where) const { return tessera::tanh(self(where)); }
Tensor ElementwiseMembers::trunc(std::source_location where) const { return tessera::trunc(self(where)); }

// ---- with numbers -------------------------------------------------------------------------------------------------------

Tensor ElementwiseMembers::celu(double alpha, std::source_location where) const {
  return tessera::celu(self(where), alpha);
}
Tensor ElementwiseMembers::clamp(ClampOptions bounds, std::source_location where) const {
  return tessera::clamp(self(where), bounds);
}
Tensor ElementwiseMembers::clamp(double low, double high, std::source_location where) const {
  return tessera::clamp(self(where), low, high);
}
Tensor ElementwiseMembers::clip(ClampOptions bounds, std::source_location where) const {
  return tessera::clip(self(where), bounds);
}
Tensor ElementwiseMembers::clip(double low, double high, std::source_location where) const {
  return tessera::clip(self(where), low, high);
}
Tensor ElementwiseMembers::elu(double alpha, std::source_location where) const {
  return tessera::elu(self(where), alpha);
}
Tensor ElementwiseMembers::glu(int dim, std::source_location where) const { return tessera::glu(self(where), dim); }
Tensor ElementwiseMembers::hardtanh(double low, double high, std::source_location where) const {
  return tessera::hardtanh(self(where), low, high);
}
Tensor ElementwiseMembers::leaky_relu(double negative_slope, std::source_location where) const {
  return tessera::leaky_relu(self(where), negative_slope);
}
Tensor ElementwiseMembers::logit(std::optional<double> epsilon, std::source_location where) const {
  return tessera::logit(self(where), epsilon);
}
Tensor ElementwiseMembers::nan_to_num(NanToNumOptions options, std::source_location where) const {
  return tessera::nan_to_num(self(where), options);
}
Tensor ElementwiseMembers::softplus(double beta, std::source_location where) const {
  return tessera::softplus(self(where), beta);
}
Tensor ElementwiseMembers::threshold(double threshold, double value, std::source_location where) const {
  return tessera::threshold(self(where), threshold, value);
}
Tensor ElementwiseMembers::nan_to_num(std::source_location where) const { return tessera::nan_to_num(self(where)); }

// ---- with other tensors -------------------------------------------------------------------------------------------------

Tensor ElementwiseMembers::atan2(const Operand& x) const { return tessera::atan2(self(x.where()), x); }
Tensor ElementwiseMembers::div(const Operand& divisor) const { return tessera::div(self(divisor.where()), divisor); }
Tensor ElementwiseMembers::div(const Operand& divisor, RoundingMode rounding) const {
  return tessera::div(self(divisor.where()), divisor, rounding);
}
Tensor ElementwiseMembers::floor_divide(const Operand& divisor) const {
  return tessera::floor_divide(self(divisor.where()), divisor);
}
Tensor ElementwiseMembers::fmod(const Operand& divisor) const { return tessera::fmod(self(divisor.where()), divisor); }
Tensor ElementwiseMembers::hypot(const Operand& other) const { return tessera::hypot(self(other.where()), other); }
Tensor ElementwiseMembers::logaddexp(const Operand& other) const {
  return tessera::logaddexp(self(other.where()), other);
}
Tensor ElementwiseMembers::logical_and(const Operand& other) const {
  return tessera::logical_and(self(other.where()), other);
}
Tensor ElementwiseMembers::logical_or(const Operand& other) const {
  return tessera::logical_or(self(other.where()), other);
}
Tensor ElementwiseMembers::logical_xor(const Operand& other) const {
  return tessera::logical_xor(self(other.where()), other);
}
Tensor ElementwiseMembers::maximum(const Operand& other) const { return tessera::maximum(self(other.where()), other); }
Tensor ElementwiseMembers::minimum(const Operand& other) const { return tessera::minimum(self(other.where()), other); }
Tensor ElementwiseMembers::pow(const Operand& exponent) const { return tessera::pow(self(exponent.where()), exponent); }
Tensor ElementwiseMembers::prelu(const Operand& weight) const { return tessera::prelu(self(weight.where()), weight); }
Tensor ElementwiseMembers::remainder(const Operand& divisor) const {
  return tessera::remainder(self(divisor.where()), divisor);
}
Tensor ElementwiseMembers::xlogy(const Operand& y) const { return tessera::xlogy(self(y.where()), y); }
Tensor ElementwiseMembers::lerp(const Operand& end, const Operand& weight) const {
  return tessera::lerp(self(end.where()), end, weight);
}
Tensor ElementwiseMembers::masked_fill(const Operand& mask, const Operand& value) const {
  return tessera::masked_fill(self(mask.where()), mask, value);
}
Tensor ElementwiseMembers::where(const Operand& predicate, const Operand& otherwise) const {
  return tessera::where(predicate, self(predicate.where()), otherwise);
}

}  // namespace tessera
