// SPDX-License-Identifier: Apache-2.0
// Initial values that a program writes as ops:  register_parameter("scale", ones({1}))
#pragma once

#include <string_view>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera::detail {

/// Lets the program of initial values compute the traced value of a variable, at its first use. Without this the ops
/// would be part of the first step, whose program would therefore differ from that of the others. Does nothing if the
/// value is data, or depends on data other than a few numbers of the host. In a function that is being compiled, and in
/// a function of cond, a loop or a transform, such a traced value of the variable `name` is an error, because the
/// program would compute it again each time.
void compute_as_initial_value(const Tensor& variable, std::string_view name);

}  // namespace tessera::detail
