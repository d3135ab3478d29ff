// SPDX-License-Identifier: Apache-2.0
#include "tensor/number_types.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>

#include "tessera/base/error.h"

namespace tessera {
namespace {

// The numbers from `lowest` up to `limit`, which is excluded because a double can represent it for 64 bits, too.
struct IntegerRange {
  double lowest = 0;
  double limit = 0;
  std::string text;
};

IntegerRange range_of(DType dtype) {
  return visit_dtype(dtype, []<class T>() -> IntegerRange {
    if constexpr (std::is_integral_v<T>) {
      using Limits = std::numeric_limits<T>;
      return {static_cast<double>(Limits::lowest()), std::ldexp(1.0, Limits::digits),
              fmt::format("{} to {}", +Limits::lowest(), +Limits::max())};
    } else {
      throw InternalError("the range of a type without integers");
    }
  });
}

}  // namespace

NumberPlace place_of(double number, DType dtype) {
  if (!is_integer(dtype)) return NumberPlace::kInside;
  const IntegerRange range = range_of(dtype);
  if (number < range.lowest) return NumberPlace::kBelow;
  return number >= range.limit ? NumberPlace::kAbove : NumberPlace::kInside;
}

void check_number(double number, const Type& type, std::string_view role, std::string_view advice) {
  const DType dtype = type.dtype();
  if (!is_integer(dtype)) return;
  require(number == std::trunc(number), "{} is not an integer, but {} is {}; {}", number, role, type, advice);
  require(
      place_of(number, dtype) == NumberPlace::kInside, "{} is out of range: {} is {}, and {} has the numbers {}; {}",
      number, role, type, dtype_name(dtype), [&] { return range_of(dtype).text; }, advice);
}

void fail_pred_with_number(double number, const Type& type) {
  fail("the number {} with {} would give a result of type pred; convert the tensor first, as in mask.to(kF32) * 2.0",
       number, type.str());
}

Literal checked_scalar(DType dtype, double number) {
  check_number(number, Type::scalar(dtype), "the scalar", kTypeAdvice);
  return scalar_of(dtype, number);
}

}  // namespace tessera
