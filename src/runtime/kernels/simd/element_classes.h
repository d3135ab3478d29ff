// SPDX-License-Identifier: Apache-2.0
// The element types that an op supports, and wrapping arithmetic. Only for the sources of a kernel set.
#pragma once

#include "kernels/simd/scalar_math.h"

namespace tessera::kernels::TESSERA_ISA {
namespace {

/// For compute types: 16-bit floats are computed in f32.
template <class C>
inline constexpr bool kReal = kDTypeOf<C> == DType::kF32 || kDTypeOf<C> == DType::kF64;
template <class C>
inline constexpr bool kPredicate = kDTypeOf<C> == DType::kPred;

struct All {
  template <class T>
  static constexpr bool kTakes = true;
};
struct Numbers {
  template <class T>
  static constexpr bool kTakes = kDTypeOf<T> != DType::kPred;
};
struct Reals {
  template <class T>
  static constexpr bool kTakes = kIsFloatingClass<T>;
};
struct Integers {
  template <class T>
  static constexpr bool kTakes = is_integer(kDTypeOf<T>);
};
struct Bits {
  template <class T>
  static constexpr bool kTakes = !kIsFloatingClass<T>;
};

template <class C, class F>
TESSERA_INLINE C wrapping(C a, C b, F f) {  // in unsigned 64 bits, without undefined overflow
  return static_cast<C>(f(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
}

}  // namespace
}  // namespace tessera::kernels::TESSERA_ISA
