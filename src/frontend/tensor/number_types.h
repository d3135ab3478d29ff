// SPDX-License-Identifier: Apache-2.0
// Conversion of C++ numbers to element types. An integer type refuses numbers that it cannot represent.
#pragma once

#include <string_view>

#include "tessera/tensor/literal.h"
#include "tessera/tensor/shape.h"

namespace tessera {

enum class NumberPlace { kBelow, kInside, kAbove };
/// Tells where a number lies relative to the range of an integer type. kInside for all other types.
NumberPlace place_of(double number, DType dtype);

inline constexpr std::string_view kConvertAdvice = "convert it with .to()";
inline constexpr std::string_view kTypeAdvice = "use another element type";
/// Throws an Error if `type` has integers and cannot represent the number. The error calls the tensor of this type
/// `role`.
void check_number(double number, const Type& type, std::string_view role = "the tensor",
                  std::string_view advice = kConvertAdvice);

/// Throws the Error that a number and a tensor of type pred would give a result of type pred.
[[noreturn]] void fail_pred_with_number(double number, const Type& type);

/// A scalar literal. Error if the type cannot represent the number.
Literal checked_scalar(DType dtype, double number);

}  // namespace tessera
