// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/initializers.h"

#include <cmath>
#include <numbers>

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
