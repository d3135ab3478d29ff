// SPDX-License-Identifier: Apache-2.0
// Compares values: integers must be equal, floats within a bound relative to the rounding of the element type.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "tessera/ir/builder.h"
#include "tessera/ir/program.h"

namespace tessera::testing {

/// NaN equals NaN. `units` are rounding steps of the element type, relative to the larger of 1 and the value.
::testing::AssertionResult close(const Literal& got, const Literal& expected, double units = 8);

Literal random_literal(const Type& type, unsigned seed, double low = -2, double high = 2);
/// Returns one value for each parameter of the entry.
std::vector<Literal> random_arguments(const Program& program, unsigned seed);
Program read(const std::string& text);
using Body = std::function<Value(Builder&, const std::vector<Value>&)>;
/// Returns the program main(parameters of `types`) = body(parameters).
Program program_of(const std::vector<Type>& types, const Body& body);

/// Calls `body` with the generic instruction set, AVX2 and the best set of this processor, or only with the one that
/// TESSERA_ISA names.
void on_each_isa(const std::function<void()>& body);
/// Calls `body` with every set of this processor, for kernels of bf16.
void on_all_isas(const std::function<void()>& body);

}  // namespace tessera::testing
