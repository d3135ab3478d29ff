// SPDX-License-Identifier: Apache-2.0
// Initial values of parameters. They depend only on the seed, the number of the parameter and the global element
// index. Every mesh therefore starts from the same values, and no rank computes more than its shard.
#pragma once

#include <cstdint>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera::nn {

Initializer zeros();
Initializer ones();
Initializer constant(double value);
/// Each call takes the next parameter number.
Initializer normal(double mean, double standard_deviation);
Initializer uniform(double low, double high);
/// PyTorch's xavier_uniform for a matrix [out, in]: uniform in (-b, b) with b = sqrt(6 / (in + out)).
Initializer xavier_uniform(std::int64_t in, std::int64_t out);

/// Gives a parameter another initial value. Error if its value was set, or computed by its first use.
void set_initializer(const Tensor& parameter, Initializer initializer);

}  // namespace tessera::nn
