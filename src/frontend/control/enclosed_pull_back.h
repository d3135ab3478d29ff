// SPDX-License-Identifier: Apache-2.0
// Gradients of values of an enclosing computation, for a pullback that a function of vmap or of a loop calls.
#pragma once

#include <vector>

#include "tessera/frontend/tracing/inner.h"

namespace tessera::control {

/// The gradients that flow to each of `wrt` if `d_outputs`, values of the computation that is traced now, are the
/// gradients of `outputs`. `outputs` and `wrt` are values of an enclosing computation. Null: no gradient flows.
std::vector<Value> enclosed_pull_back(const std::vector<Value>& outputs, const std::vector<Value>& d_outputs,
                                      const std::vector<Value>& wrt);

}  // namespace tessera::control
