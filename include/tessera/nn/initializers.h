// SPDX-License-Identifier: Apache-2.0
// Initial values of parameters: functions of the seed, the parameter's number and the global element index, so that every mesh
// starts from the same values and no rank computes more than its shard.
#pragma once

#include "tessera/frontend/tensor/tensor.h"

namespace tessera::nn {

Initializer zeros();
Initializer ones();
Initializer constant(double value);
/// Each of these takes the next parameter number when it is called.
Initializer normal(double mean, double standard_deviation);
Initializer uniform(double low, double high);

}  // namespace tessera::nn
