// SPDX-License-Identifier: Apache-2.0
// Arithmetic on numbers that come from a text. A result records whether it fits in 64 bits.
//
//   const Checked size = (Checked(n) - 1) * stride + low + high;
//   require(size.fits(), "dim {}: ..", d);
//   dims.push_back(size.value());
#pragma once

#include <cstdint>
#include <limits>

#include "tessera/base/error.h"

namespace tessera {

/// A 64-bit integer. If a sum, difference or product overflows, fits() is false for it and for all results that are
/// computed from it.
class Checked {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): plain numbers convert
  constexpr Checked(std::int64_t value) : value_(value) {}

  [[nodiscard]] constexpr bool fits() const { return fits_; }
  /// Returns the value. InternalError if it does not fit; call fits() first.
  [[nodiscard]] std::int64_t value() const {
    ensure(fits_, "the value of a number that does not fit in 64 bits was read");
    return value_;
  }
  /// Returns the value, or the largest 64-bit number if it does not fit. Used for sums of bytes that are only printed
  /// or compared.
  [[nodiscard]] constexpr std::int64_t value_or_most() const {
    return fits_ ? value_ : std::numeric_limits<std::int64_t>::max();
  }

  friend constexpr Checked operator+(Checked a, Checked b) {
    Checked out = 0;
    out.fits_ = !__builtin_add_overflow(a.value_, b.value_, &out.value_) && a.fits_ && b.fits_;
    return out;
  }
  friend constexpr Checked operator-(Checked a, Checked b) {
    Checked out = 0;
    out.fits_ = !__builtin_sub_overflow(a.value_, b.value_, &out.value_) && a.fits_ && b.fits_;
    return out;
  }
  friend constexpr Checked operator*(Checked a, Checked b) {
    Checked out = 0;
    out.fits_ = !__builtin_mul_overflow(a.value_, b.value_, &out.value_) && a.fits_ && b.fits_;
    return out;
  }
  constexpr Checked& operator+=(Checked other) { return *this = *this + other; }
  constexpr Checked& operator*=(Checked other) { return *this = *this * other; }

 private:
  std::int64_t value_ = 0;
  bool fits_ = true;
};

/// Rounds `x` towards zero. Returns the nearest 64-bit number if the result does not fit, and 0 for NaN.
constexpr std::int64_t saturated(double x) {
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (x >= kLimit) return std::numeric_limits<std::int64_t>::max();
  if (x < -kLimit) return std::numeric_limits<std::int64_t>::min();
  return x == x ? static_cast<std::int64_t>(x) : 0;
}

}  // namespace tessera
