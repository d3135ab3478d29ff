// SPDX-License-Identifier: Apache-2.0
// The functions in pointwise.h as members: x.relu(), x.maximum(y). That header describes them.
#pragma once

#include <cstdint>
#include <optional>
#include <source_location>

namespace tessera {

struct ClampOptions;
struct NanToNumOptions;
enum class RoundingMode : std::uint8_t;
class Operand;
class Tensor;

/// A base of Tensor.
class ElementwiseMembers {
 public:
  // ---- of one tensor ------------------------------------------------------------------------------------------------

  [[nodiscard]] Tensor abs(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor acos(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor acosh(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor asin(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor asinh(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor atan(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor atanh(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor ceil(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor cos(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor cosh(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor erf(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor exp(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor exp2(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor expm1(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor floor(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor frac(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor gelu(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor gelu_new(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor hardsigmoid(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor hardswish(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor isfinite(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor isinf(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor isnan(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor isneginf(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor isposinf(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor log(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor log10(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor log1p(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor log2(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor log_sigmoid(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor logical_not(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor mish(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor reciprocal(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor relu(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor relu6(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor round(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor rsqrt(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor selu(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor sigmoid(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor sign(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor silu(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor sin(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor sinc(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor sinh(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor sqrt(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor square(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor tan(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor tanh(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor trunc(std::source_location where = std::source_location::current()) const;

  // ---- with numbers -------------------------------------------------------------------------------------------------

  [[nodiscard]] Tensor celu(double alpha = 1, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor clamp(ClampOptions bounds, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor clamp(double low, double high,
                             std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor clip(ClampOptions bounds, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor clip(double low, double high,
                            std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor elu(double alpha = 1, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor glu(int dim = -1, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor hardtanh(double low = -1, double high = 1,
                                std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor leaky_relu(double negative_slope = 0.01,
                                  std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor logit(std::optional<double> epsilon = {},
                             std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor nan_to_num(NanToNumOptions options,
                                  std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor softplus(double beta = 1, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor threshold(double threshold, double value,
                                 std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor nan_to_num(std::source_location where = std::source_location::current()) const;

  // ---- with other tensors -------------------------------------------------------------------------------------------

  [[nodiscard]] Tensor atan2(const Operand& x) const;
  [[nodiscard]] Tensor div(const Operand& divisor) const;
  [[nodiscard]] Tensor div(const Operand& divisor, RoundingMode rounding) const;
  [[nodiscard]] Tensor floor_divide(const Operand& divisor) const;
  [[nodiscard]] Tensor fmod(const Operand& divisor) const;
  [[nodiscard]] Tensor hypot(const Operand& other) const;
  [[nodiscard]] Tensor logaddexp(const Operand& other) const;
  [[nodiscard]] Tensor logical_and(const Operand& other) const;
  [[nodiscard]] Tensor logical_or(const Operand& other) const;
  [[nodiscard]] Tensor logical_xor(const Operand& other) const;
  [[nodiscard]] Tensor maximum(const Operand& other) const;
  [[nodiscard]] Tensor minimum(const Operand& other) const;
  [[nodiscard]] Tensor pow(const Operand& exponent) const;
  [[nodiscard]] Tensor prelu(const Operand& weight) const;
  [[nodiscard]] Tensor remainder(const Operand& divisor) const;
  [[nodiscard]] Tensor xlogy(const Operand& y) const;
  [[nodiscard]] Tensor lerp(const Operand& end, const Operand& weight) const;
  [[nodiscard]] Tensor masked_fill(const Operand& mask, const Operand& value) const;
  /// The elements of the tensor where `predicate` holds, else those of `otherwise`.
  [[nodiscard]] Tensor where(const Operand& predicate, const Operand& otherwise) const;

 private:
  friend class TensorMembers;
  ElementwiseMembers() = default;  // only as the base of Tensor
  [[nodiscard]] Operand self(const std::source_location& where) const;
};

}  // namespace tessera
