// SPDX-License-Identifier: Apache-2.0
// Initial values of parameters. They depend only on the seed, the number of the parameter and the global element
// index. Every mesh therefore starts from the same values, and no rank computes more than its shard.
//
//   add_parameter("weight", Type::array(DType::kF32, {64, 256}), nn::normal(0, 0.02));
//
// The functions in nn::init change the initial value of a parameter of a module. They have the names, arguments and
// defaults of torch.nn.init, without the underscore at the end:
//
//   model.apply([](nn::Module& module) {
//     if (const auto* linear = dynamic_cast<const nn::Linear*>(&module)) nn::init::xavier_uniform(linear->weight());
//   });
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera::nn {

/// Initial values that are all equal.
Initializer zeros();
Initializer ones();
Initializer constant(double value);
/// Initial values from random numbers. Each call takes the next number of a parameter, so that parameters get different
/// values.
Initializer normal(double mean, double standard_deviation);
Initializer uniform(double low, double high);
/// The normal distribution within [low, high]. Error unless low < high and standard_deviation > 0.
Initializer truncated_normal(double mean, double standard_deviation, double low, double high);
/// PyTorch's xavier_uniform for a matrix [out, in]: uniform in (-b, b) with b = sqrt(6 / (in + out)).
Initializer xavier_uniform(std::int64_t in, std::int64_t out);

/// Gives a parameter another initial value. Error if its value was set, or computed by its first use.
void set_initializer(const Tensor& parameter, Initializer initializer);

// Before the first use of a parameter, these functions replace its initial value. Later, for example after weights were
// loaded, they assign the value, which is then computed as part of the current step. The shape of a parameter is its
// shape in files, where a layer of ScanLayers has its own parameter. In a weight [out, in, sizes…], fan_in is the
// product of `in` and the sizes, and fan_out the product of `out` and the sizes. Functions that use them need at least
// two dims.
namespace init {

void uniform(const Tensor& parameter, double low = 0, double high = 1);
void normal(const Tensor& parameter, double mean = 0, double standard_deviation = 1);
/// The normal distribution within [low, high].
void trunc_normal(const Tensor& parameter, double mean = 0, double standard_deviation = 1, double low = -2,
                  double high = 2);
void constant(const Tensor& parameter, double value);
void zeros(const Tensor& parameter);
void ones(const Tensor& parameter);
/// Ones where row and column are equal, in a matrix.
void eye(const Tensor& parameter);
/// Convolution weights [out, in, sizes…] that copy their input: output channel i has a 1 in the middle of the kernel of
/// input channel i. With several groups, each group of output channels does this. Errors: the parameter does not have 3
/// to 5 dims; `out` is not a multiple of `groups`.
void dirac(const Tensor& parameter, std::int64_t groups = 1);

/// The factor for weights before a nonlinearity: linear, conv1d (2d, 3d), conv_transpose1d (2d, 3d) and sigmoid: 1;
/// tanh: 5/3; relu: sqrt(2); leaky_relu: sqrt(2 / (1 + slope^2)), where `parameter` is the slope, by default 0.01;
/// selu: 3/4. If the name is unknown, the error contains the nearest one.
double calculate_gain(std::string_view nonlinearity, std::optional<double> parameter = {});

/// Uniform in (-b, b) with b = gain sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010).
void xavier_uniform(const Tensor& parameter, double gain = 1);
/// Normal with the deviation gain sqrt(2 / (fan_in + fan_out)).
void xavier_normal(const Tensor& parameter, double gain = 1);

enum class FanMode : std::uint8_t { kFanIn, kFanOut };
struct KaimingOptions {
  double a = 0;  // the slope of leaky_relu
  FanMode mode = FanMode::kFanIn;
  std::string nonlinearity = "leaky_relu";  // as for calculate_gain()
};
/// Uniform in (-b, b) with b = gain sqrt(3 / fan), where gain = calculate_gain(nonlinearity, a) (He et al., 2015).
void kaiming_uniform(const Tensor& parameter, const KaimingOptions& options = {});
/// Normal with the deviation gain / sqrt(fan).
void kaiming_normal(const Tensor& parameter, const KaimingOptions& options = {});

/// `gain` times a matrix with orthonormal rows or columns, whichever are fewer (Saxe et al., 2014). Dims after the
/// first form the columns. The matrix is Q of the QR decomposition of a normal matrix, where the diagonal of R is
/// positive. It is computed in f64, so that meshes differ by less than the rounding to f32, except in rare cases. Every
/// rank may compute the complete matrix.
void orthogonal(const Tensor& parameter, double gain = 1);

}  // namespace init
}  // namespace tessera::nn
