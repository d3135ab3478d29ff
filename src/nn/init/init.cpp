// SPDX-License-Identifier: Apache-2.0
// nn::init: the functions of torch.nn.init.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "init/orthogonal.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/nn/initializers.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"

namespace tessera::nn::init {
namespace {

/// Computes a stack [count, …] of values, one for each layer of ScanLayers.
using StackInitializer = std::function<Value(Builder& builder, const Type& type)>;

// The dims of the parameter in files.
Dims file_dims(const Tensor& parameter) {
  const TensorImpl& impl = parameter.impl();
  const Dims dims = parameter.dims();
  Dims own(dims.begin() + (impl.stack_count > 0 ? 1 : 0), dims.end());
  const bool fits = !impl.exported_dims.empty() && product(impl.exported_dims) == product(own);
  return fits ? impl.exported_dims : own;
}

// Replaces the initial value of a parameter, or assigns the value if the parameter has one already.
void initialize(std::string_view function, const Tensor& parameter, Initializer initializer) {
  require(!parameter.is_null(), "init::{}: the parameter is null", function);
  require(parameter.impl().stack == nullptr, "init::{}: {} is one layer of a stack; pass the parameter of the stack",
          function, parameter.name());
  Tensor variable = parameter;
  if (variable.impl().node->initializer != nullptr) return set_initializer(variable, std::move(initializer));
  const auto where = trace().call_site(std::source_location::current());
  const Type type = stored_tensor(variable).type();
  variable.assign(trace().record(where, [&](Builder& builder) { return initializer(builder, type); }), where);
}

// The same for values that depend on the position in the shape of the file.
void initialize_in_file_dims(std::string_view function, const Tensor& parameter, StackInitializer stack) {
  const Dims own = file_dims(parameter);
  initialize(function, parameter, [own, stack = std::move(stack)](Builder& builder, const Type& type) {
    Dims dims = own;
    dims.insert(dims.begin(), type.element_count() /
                                  std::max<std::int64_t>(1, product(own)));  // ScanLayers may stack the parameter later
    return ops::reshape(stack(builder, type.with_dims(dims)), type.dims());
  });
}

struct Fans {
  double in = 0;
  double out = 0;
};
Fans fans_of(std::string_view function, const Tensor& parameter) {
  require(!parameter.is_null(), "init::{}: the parameter is null", function);
  const Dims dims = file_dims(parameter);
  require(dims.size() >= 2, "init::{} needs a parameter [out, in, …], but {} is {}", function, parameter.name(),
          parameter.type());
  const auto size = static_cast<double>(product(Dims(dims.begin() + 2, dims.end())));
  return {.in = static_cast<double>(dims[1]) * size, .out = static_cast<double>(dims[0]) * size};
}

double xavier_deviation(std::string_view function, const Tensor& parameter, double gain) {
  const Fans fans = fans_of(function, parameter);
  return gain * std::sqrt(2 / (fans.in + fans.out));
}

double kaiming_deviation(std::string_view function, const Tensor& parameter, const KaimingOptions& options) {
  const Fans fans = fans_of(function, parameter);
  const double fan = options.mode == FanMode::kFanIn ? fans.in : fans.out;
  return calculate_gain(options.nonlinearity, options.a) / std::sqrt(fan);
}

const double kSqrt3 = std::sqrt(3.0);

// Ones where a condition is true.
Value ones_where(Value condition, const Type& type) {
  Builder& builder = *condition.builder;
  return ops::select(condition, ops::full(builder, type, 1), ops::full(builder, type, 0));
}

}  // namespace

void uniform(const Tensor& parameter, double low, double high) {
  require(low <= high, "init::uniform: the lower limit must not be above the upper one, got {} and {}", low, high);
  initialize("uniform", parameter, nn::uniform(low, high));
}
void normal(const Tensor& parameter, double mean, double standard_deviation) {
  require(standard_deviation >= 0, "init::normal: the standard deviation must not be negative, got {}",
          standard_deviation);
  initialize("normal", parameter, nn::normal(mean, standard_deviation));
}
void trunc_normal(const Tensor& parameter, double mean, double standard_deviation, double low, double high) {
  initialize("trunc_normal", parameter, nn::truncated_normal(mean, standard_deviation, low, high));
}
void constant(const Tensor& parameter, double value) { initialize("constant", parameter, nn::constant(value)); }
void zeros(const Tensor& parameter) { initialize("zeros", parameter, nn::zeros()); }
void ones(const Tensor& parameter) { initialize("ones", parameter, nn::ones()); }

void eye(const Tensor& parameter) {
  require(!parameter.is_null() && file_dims(parameter).size() == 2, "init::eye needs a matrix, got {}",
          parameter.is_null() ? "null" : parameter.type().str());
  initialize_in_file_dims("eye", parameter, [](Builder& builder, const Type& type) {
    const Type index = type.with_dtype(DType::kS32);
    const Value row = ops::iota(builder, index, 1);
    return ones_where(ops::compare(row, ops::iota(builder, index, 2), CompareDirection::kEq), type);
  });
}

void dirac(const Tensor& parameter, std::int64_t groups) {
  const Dims dims = parameter.is_null() ? Dims{} : file_dims(parameter);
  require(dims.size() >= 3 && dims.size() <= 5, "init::dirac needs weights [out, in, sizes…] of 3 to 5 dims, got {}",
          parameter.is_null() ? "null" : parameter.type().str());
  require(groups >= 1 && dims[0] % groups == 0, "init::dirac: the {} output channels are no multiple of {} groups",
          dims[0], groups);
  initialize_in_file_dims("dirac", parameter, [dims, groups](Builder& builder, const Type& type) {
    const Type index = type.with_dtype(DType::kS32);
    const auto number = [&](std::int64_t value) { return ops::full(builder, index, static_cast<double>(value)); };
    const Value of_group = ops::remainder(ops::iota(builder, index, 1), number(dims[0] / groups));
    Value is_one = ops::compare(of_group, ops::iota(builder, index, 2), CompareDirection::kEq);
    for (int d = 2; d < isize(dims); ++d) {
      const Value is_middle =
          ops::compare(ops::iota(builder, index, d + 1), number(at(dims, d) / 2), CompareDirection::kEq);
      is_one = ops::logical_and(is_one, is_middle);
    }
    return ones_where(is_one, type);
  });
}

double calculate_gain(std::string_view nonlinearity, std::optional<double> parameter) {
  static const std::vector<std::string> kLinear{"linear",           "conv1d",           "conv2d",           "conv3d",
                                                "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "sigmoid"};
  if (std::find(kLinear.begin(), kLinear.end(), nonlinearity) != kLinear.end()) return 1;
  if (nonlinearity == "tanh") return 5.0 / 3.0;
  if (nonlinearity == "relu") return std::sqrt(2.0);
  if (nonlinearity == "leaky_relu") {
    const double slope = parameter.value_or(0.01);
    return std::sqrt(2 / (1 + slope * slope));
  }
  if (nonlinearity == "selu") return 0.75;
  std::vector<std::string> names = kLinear;
  names.insert(names.end(), {"tanh", "relu", "leaky_relu", "selu"});
  fail("calculate_gain: unknown nonlinearity {}{}", nonlinearity, suggest_name(nonlinearity, names));
}

void xavier_uniform(const Tensor& parameter, double gain) {
  const double bound = kSqrt3 * xavier_deviation("xavier_uniform", parameter, gain);
  initialize("xavier_uniform", parameter, nn::uniform(-bound, bound));
}
void xavier_normal(const Tensor& parameter, double gain) {
  initialize("xavier_normal", parameter, nn::normal(0, xavier_deviation("xavier_normal", parameter, gain)));
}
void kaiming_uniform(const Tensor& parameter, const KaimingOptions& options) {
  const double bound = kSqrt3 * kaiming_deviation("kaiming_uniform", parameter, options);
  initialize("kaiming_uniform", parameter, nn::uniform(-bound, bound));
}
void kaiming_normal(const Tensor& parameter, const KaimingOptions& options) {
  initialize("kaiming_normal", parameter, nn::normal(0, kaiming_deviation("kaiming_normal", parameter, options)));
}

void orthogonal(const Tensor& parameter, double gain) {
  const Dims dims = parameter.is_null() ? Dims{} : file_dims(parameter);
  require(dims.size() >= 2, "init::orthogonal needs a parameter of at least two dims, got {}",
          parameter.is_null() ? "null" : parameter.type().str());
  const auto draw = nn::normal(0, 1);
  initialize_in_file_dims("orthogonal", parameter, [dims, draw, gain](Builder& builder, const Type& type) {
    const std::int64_t rows = dims.front();
    const std::int64_t columns = product(Dims(dims.begin() + 1, dims.end()));
    const Type tall = Type::array(DType::kF64, {type.dim(0), std::max(rows, columns), std::min(rows, columns)});
    Value q = orthonormal_columns(draw(builder, tall));
    if (rows < columns) q = ops::transpose(q, {0, 2, 1});
    q = ops::multiply(q, ops::full(builder, q.type(), gain));
    return ops::reshape(ops::convert(q, type.dtype()), type.dims());
  });
}

}  // namespace tessera::nn::init
