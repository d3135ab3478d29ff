// SPDX-License-Identifier: Apache-2.0
#include "kernels/simd/element_classes.h"
#include "kernels/simd/registration.h"

namespace tessera::kernels::TESSERA_ISA {
namespace {

// Functors: kTakes<T> tells whether the op supports an element type; operator() works on the compute type.
struct Op_negate : Numbers {
  template <class C>
  TESSERA_INLINE C run(C x) {
    if constexpr (kReal<C>)
      return -x;
    else
      return static_cast<C>(typename UnsignedOf<C>::type(0) - static_cast<typename UnsignedOf<C>::type>(x));
  }
};
struct Op_abs : Numbers {
  template <class C>
  TESSERA_INLINE C run(C x) {
    if constexpr (kReal<C>)
      return fabs_of(x);
    else if constexpr (is_unsigned_int(kDTypeOf<C>))
      return x;
    else
      return x < 0 ? Op_negate::run(x) : x;
  }
};
struct Op_sign : Numbers {
  template <class C>
  TESSERA_INLINE C run(C x) {
    if constexpr (kReal<C>)
      return x > 0 ? C(1) : (x < 0 ? C(-1) : x);
    else if constexpr (is_unsigned_int(kDTypeOf<C>))
      return static_cast<C>(x != 0);
    else
      return static_cast<C>((x > 0) - (x < 0));
  }
};
struct Op_logical_not {
  template <class T>
  static constexpr bool kTakes = !kIsFloatingClass<T>;
  template <class C>
  TESSERA_INLINE C run(C x) {
    if constexpr (kDTypeOf<C> == DType::kPred)
      return !x;
    else
      return static_cast<C>(~x);
  }
};
#define TESSERA_REAL(word, expression) \
  struct Op_##word : Reals {           \
    template <class C>                 \
    TESSERA_INLINE C run(C x) {        \
      return expression;               \
    }                                  \
  };
TESSERA_REAL(exp, exp_of(x))
TESSERA_REAL(expm1, expm1_of(x))
TESSERA_REAL(log, log_of(x))
TESSERA_REAL(log1p, log1p_of(x))
TESSERA_REAL(sqrt, sqrt_of(x))
TESSERA_REAL(rsqrt, C(1) / sqrt_of(x))
TESSERA_REAL(cbrt, cbrt_of(x))
TESSERA_REAL(tanh, tanh_of(x))
TESSERA_REAL(tan, tan_of(x))
TESSERA_REAL(sin, sin_of(x))
TESSERA_REAL(cos, cos_of(x))
TESSERA_REAL(logistic, x != x ? x : C(1) / (C(1) + exp_of(-x)))
TESSERA_REAL(erf, erf_of(x))
TESSERA_REAL(floor, floor_of(x))
TESSERA_REAL(ceil, ceil_of(x))
TESSERA_REAL(round_even, rint_of(x))
TESSERA_REAL(round_afz, round_of(x))
#undef TESSERA_REAL
struct Op_popcnt : Integers {
  template <class C>
  TESSERA_INLINE C run(C x) {
    return static_cast<C>(__builtin_popcountll(static_cast<typename UnsignedOf<C>::type>(x)));
  }
};
struct Op_clz : Integers {
  template <class C>
  TESSERA_INLINE C run(C x) {
    constexpr int kBits = static_cast<int>(8 * sizeof(C));
    const auto wide = static_cast<unsigned long long>(static_cast<typename UnsignedOf<C>::type>(x));
    return static_cast<C>(wide == 0 ? kBits : __builtin_clzll(wide) - (64 - kBits));
  }
};

template <class T, class F>
void run_unary(const TileArgs& args) {
  const T* x = static_cast<const T*>(args.in[0]);
  T* out = static_cast<T*>(args.out);
  const std::int64_t count = args.count;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) out[i] = Storer<T>::store(F::run(load(x[i])));
}

template <class T>
void run_is_finite(const TileArgs& args) {
  const T* x = static_cast<const T*>(args.in[0]);
  bool* out = static_cast<bool*>(args.out);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < args.count; ++i) out[i] = load(x[i]) - load(x[i]) == 0;
}

template <class T>
void add_unary(KernelSet& set) {
  const int t = static_cast<int>(kDTypeOf<T>);
#define TESSERA_ADD(word, name)                                                                             \
  if constexpr (UnaryOp::word != UnaryOp::is_finite) {                                                      \
    using Op = Op_##word;                                                                                   \
    if constexpr (Op::template kTakes<T>) set.unary[static_cast<int>(UnaryOp::word)][t] = run_unary<T, Op>; \
  }
  struct Op_is_finite {};
  TESSERA_UNARY_OPS(TESSERA_ADD)
#undef TESSERA_ADD
  if constexpr (kIsFloatingClass<T>) set.unary[static_cast<int>(UnaryOp::is_finite)][t] = run_is_finite<T>;
}

}  // namespace

void add_unary(KernelSet& set) {
  for_each_dtype([&]<class T>() { add_unary<T>(set); });
}

}  // namespace tessera::kernels::TESSERA_ISA
