// SPDX-License-Identifier: Apache-2.0
// Initial values of parameters. They depend only on the seed, the number of the parameter and the global element
// index. Every mesh therefore starts from the same values, and no rank computes more than its shard.
#pragma once

#include "tessera/frontend/tensor/tensor.h"

namespace tessera::nn {

Initializer zeros();
Initializer ones();
Initializer constant(double value);
/// Each call takes the next parameter number.
Initializer normal(double mean, double standard_deviation);
Initializer uniform(double low, double high);

}  // namespace tessera::nn
