// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/initializers.h"

#include <cmath>
#include <numbers>
#include <span>

#include "tessera/base/text.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"

namespace tessera::nn {
namespace {

// Returns the key of random field number `which` of a parameter.
Value key(Builder& builder, std::uint64_t seed, std::uint64_t variable, std::uint64_t which) {
  const std::uint64_t mixed = hash_mix(hash_mix(hash_mix(0x1417, seed), variable), which);
  return ops::constant(builder, Literal::from<std::uint32_t>(
                                    {2}, {static_cast<std::uint32_t>(mixed >> 32), static_cast<std::uint32_t>(mixed)}));
}

Value scaled(Value x, double factor, double offset) {
  Builder& builder = *x.builder;
  return ops::add(ops::multiply(x, ops::full(builder, x.type(), factor)), ops::full(builder, x.type(), offset));
}

// Draws in f32 for every type, so that models of every element type start from the same values.
Value uniform_field(Value key, const Type& type) {
  const Value drawn = ops::random_uniform(key, type.dims(), DType::kF32);
  return type.dtype() == DType::kF64 ? ops::convert(drawn, DType::kF64) : drawn;
}
Value rounded(Value x, const Type& type) {
  return x.type().dtype() == type.dtype() ? x : ops::convert(x, type.dtype());
}

// The value of a polynomial, whose coefficients begin with that of the highest power.
Value polynomial(Value x, std::span<const double> coefficients) {
  const Type type = x.type();
  Value out = ops::full(*x.builder, type, coefficients.front());
  for (const double coefficient : coefficients.subspan(1))
    out = ops::add(ops::multiply(out, x), ops::full(*x.builder, type, coefficient));
  return out;
}

// The approximation of Giles (2010), as precise as f32.
Value inverse_erf(Value x) {
  constexpr double kCentral[] = {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                                 -0.00125372503, -0.00417768164, 0.246640727,    1.50140941};
  constexpr double kTail[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                              -0.0076224613,   0.00943887047,  1.00167406,    2.83297682};
  const Value squares = ops::multiply(scaled(x, -1, 1), scaled(x, 1, 1));  // 1 - x^2
  const Value w = ops::negate(ops::log(squares));
  const Value is_central = ops::compare(w, ops::full(*x.builder, w.type(), 5), CompareDirection::kLt);
  const Value central = polynomial(scaled(w, 1, -2.5), kCentral);
  const Value tail = polynomial(scaled(ops::sqrt(w), 1, -3), kTail);
  return ops::multiply(x, ops::select(is_central, central, tail));
}

}  // namespace

Initializer zeros() { return constant(0); }
Initializer ones() { return constant(1); }
Initializer constant(double value) {
  return [value](Builder& builder, const Type& type) { return ops::full(builder, type, value); };
}

Initializer uniform(double low, double high) {
  const std::uint64_t seed = trace().seed();
  const std::uint64_t variable = trace().next_variable();
  return [=](Builder& builder, const Type& type) {
    return rounded(scaled(uniform_field(key(builder, seed, variable, 0), type), high - low, low), type);
  };
}

Initializer truncated_normal(double mean, double standard_deviation, double low, double high) {
  require(standard_deviation > 0, "truncated_normal: the standard deviation must be positive, got {}",
          standard_deviation);
  require(low < high, "truncated_normal: the lower limit must be below the upper one, got {} and {}", low, high);
  const auto probability_below = [&](double x) {
    return 0.5 * std::erfc((mean - x) / (standard_deviation * std::numbers::sqrt2));
  };
  const double below = probability_below(low);
  const double within = probability_below(high) - below;
  require(within > 0, "truncated_normal: [{}, {}] is too far from the mean {}", low, high, mean);
  const std::uint64_t seed = trace().seed();
  const std::uint64_t variable = trace().next_variable();
  return [=](Builder& builder, const Type& type) {
    const Value u = uniform_field(key(builder, seed, variable, 0), type);
    const Type drawn = u.type();
    const Value positive = ops::maximum(u, ops::full(builder, drawn, 0x1p-25));  // inverse_erf(-1) is infinite
    const Value x = inverse_erf(scaled(positive, 2 * within, 2 * below - 1));
    const Value normal = scaled(x, standard_deviation * std::numbers::sqrt2, mean);
    return rounded(ops::clamp(ops::full(builder, drawn, low), normal, ops::full(builder, drawn, high)), type);
  };
}

Initializer xavier_uniform(std::int64_t in, std::int64_t out) {
  const double bound = std::sqrt(6.0 / static_cast<double>(in + out));
  return uniform(-bound, bound);
}

void set_initializer(const Tensor& parameter, Initializer initializer) {
  require(!parameter.is_null(), "set_initializer: the parameter is null");
  const NodeHandle& node = parameter.impl().node;
  require(node->initializer != nullptr,
          "set_initializer: the parameter {} has a value already; call set_initializer() before its first use, or "
          "assign() to change the value",
          [&] { return parameter.name(); });
  node->initializer = std::move(initializer);
}

// The Box-Muller transform of two uniform fields.
Initializer normal(double mean, double standard_deviation) {
  const std::uint64_t seed = trace().seed();
  const std::uint64_t variable = trace().next_variable();
  return [=](Builder& builder, const Type& type) {
    const Value u = uniform_field(key(builder, seed, variable, 0), type);
    const Value v = uniform_field(key(builder, seed, variable, 1), type);
    const Value logarithm = ops::log_plus_one(ops::negate(u));  // u < 1
    const Value radius = ops::sqrt(scaled(logarithm, -2, 0));
    const Value angle = ops::cos(scaled(v, 2 * std::numbers::pi, 0));
    return rounded(scaled(ops::multiply(radius, angle), standard_deviation, mean), type);
  };
}

}  // namespace tessera::nn
