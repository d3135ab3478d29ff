// SPDX-License-Identifier: Apache-2.0
// Between the tensors of a user's function and the values of a computation.
#pragma once

#include <functional>
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

/// The elements of a tuple under construction. Reads no tuple that was just made.
std::vector<Value> elements_of(Value tuple);

/// Checks that results[i] has the type of expected[i]: `scan: the body returns f32[3] for the carry 1, which is f32[4]`.
void check_types(std::string_view function, std::string_view what, const std::vector<Value>& expected,
                 const std::vector<Value>& results);

/// Emits `while (counter < limit)` over (counter = 0, init...) and returns the final values of init. `body` takes the
/// counter and the elements and returns the next elements.
using CountedBody = std::function<std::vector<Value>(Value counter, const std::vector<Value>& elements)>;
std::vector<Value> counted_while(Builder& outer, const std::string& name, std::int64_t limit,
                                 const std::vector<Value>& init, const CountedBody& body);

/// Returns the value of a scalar s32 constant.
Value s32(Builder& builder, std::int64_t value);

/// The positions (index, 0, 0, …) of a slice along dim 0 of an array.
std::vector<Value> row_position(Value index, int ndim);
/// Element `index` along dim 0, without this dim.
Value row_of(Value stack, Value index);
/// The stack with element `index` along dim 0 replaced.
Value with_row(Value stack, Value row, Value index);
Type stacked_type(const Type& row, std::int64_t length);

}  // namespace tessera::control
