// SPDX-License-Identifier: Apache-2.0
// convert between all pairs of types: float to integer truncates towards zero, saturates, and turns NaN into 0;
// integers wrap; all other conversions round once.
#include <type_traits>

#include "kernels/simd/registration.h"
#include "kernels/simd/scalar_math.h"

namespace tessera::kernels::TESSERA_ISA {
namespace {

template <class To>
struct Limits {
  static constexpr bool kSigned = is_signed_int(kDTypeOf<To>);
  static constexpr int kDigits = static_cast<int>(8 * sizeof(To)) - (kSigned ? 1 : 0);
  static constexpr To kMax = static_cast<To>(~std::uint64_t{0} >> (64 - kDigits));
  static constexpr To kMin = kSigned ? static_cast<To>(-kMax - 1) : To(0);
  /// 2^digits: the smallest integer that is too large; exact in float and double.
  static constexpr double kAbove =
      kDigits == 64 ? 18446744073709551616.0 : static_cast<double>(std::uint64_t{1} << (kDigits & 63));
};

template <class To, class C>
TESSERA_INLINE To saturated(C x) {
  using L = Limits<To>;
  const auto above = static_cast<C>(L::kAbove);
  const auto lowest = static_cast<C>(L::kMin);
  const bool inside = (x < above) & (x > lowest);  // false for NaN
  const To value = static_cast<To>(inside ? x : C(0));
  const To outside = x >= above ? L::kMax : (x <= lowest ? L::kMin : To(0));
  return inside ? value : outside;
}

// Returns a double that rounds to any narrower float as the integer does: if 53 bits are not enough, the lowest bit is
// sticky.
template <class From>
TESSERA_INLINE double exact_enough(From x) {
  if constexpr (sizeof(From) < 8) {
    return static_cast<double>(x);
  } else {
    const bool negative = x < 0;
    const std::uint64_t size =
        negative ? std::uint64_t{0} - static_cast<std::uint64_t>(x) : static_cast<std::uint64_t>(x);
    if (size >> 53 == 0) return static_cast<double>(x);
    const std::uint64_t sticky = (size >> 11) | static_cast<std::uint64_t>((size & 0x7ff) != 0);
    return (negative ? -1.0 : 1.0) * (static_cast<double>(sticky) * 2048.0);
  }
}

template <class To, class From>
TESSERA_INLINE To convert_element(From x) {
  constexpr DType kTo = kDTypeOf<To>;
  constexpr DType kFrom = kDTypeOf<From>;
  if constexpr (kTo == kFrom) {
    return x;
  } else if constexpr (is_float(kFrom)) {
    const auto value = load(x);
    if constexpr (kTo == DType::kPred)
      return value != 0;
    else if constexpr (!is_float(kTo))
      return saturated<To>(value);
    else if constexpr (kFrom == DType::kF64 && sizeof(To) == 2)
      return To(value);  // rounds once
    else
      return Storer<To>::store(static_cast<Compute<To>>(value));
  } else if constexpr (kTo == DType::kPred) {
    return x != 0;
  } else if constexpr (kTo == DType::kF64) {
    return static_cast<double>(x);
  } else if constexpr (kTo == DType::kF32) {
    return static_cast<float>(x);
  } else if constexpr (is_float(kTo)) {
    // Up to 24 bits are exact in f32. Larger integers must be rounded only once, directly to the 16-bit type.
    if constexpr (sizeof(From) <= 2)
      return Storer<To>::store(static_cast<float>(x));
    else
      return To(exact_enough(x));
  } else {
    return static_cast<To>(x);
  }
}

template <class From, class To>
void run_convert(const TileArgs& args) {
  const From* x = static_cast<const From*>(args.in[0]);
  To* out = static_cast<To*>(args.out);
  const std::int64_t count = args.count;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) out[i] = convert_element<To>(x[i]);
}

// bool values are the bytes 0 and 1. Converting them as bytes vectorizes.
template <class T>
using AsBytes = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;

}  // namespace

void add_convert(KernelSet& set) {
  for_each_dtype([&]<class From>() {
    for_each_dtype([&]<class To>() {
      set.convert[static_cast<int>(kDTypeOf<From>)][static_cast<int>(kDTypeOf<To>)] = run_convert<AsBytes<From>, To>;
    });
  });
}

}  // namespace tessera::kernels::TESSERA_ISA
