// SPDX-License-Identifier: Apache-2.0
// Between the tensors of a user's function and the values of a computation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/frontend/tracing/inner.h"

namespace tessera::control {

/// The values of tensors for use in the computation that is traced now. Gradients flow to them.
std::vector<Value> values_of(const std::vector<Tensor>& tensors);
std::vector<Tensor> tensors_of(const std::vector<Value>& values);

/// Adds an argument for each value.
std::vector<Value> add_arguments(FunctionTrace& function, const std::vector<Value>& like, const std::string& name);

/// Checks that results[i] has the type of expected[i]: `scan: the body returns f32[3] for the carry 1, which is f32[4]`.
void check_types(std::string_view function, std::string_view what, const std::vector<Value>& expected,
                 const std::vector<Value>& results);

/// Returns the value of a scalar s32 constant.
Value s32(Builder& builder, std::int64_t value);

Type stacked_type(const Type& row, std::int64_t length);

}  // namespace tessera::control
