// SPDX-License-Identifier: Apache-2.0
// Ops with two operands (arithmetic, logic, shifts, comparisons) or three (select, clamp). They are defined for all
// inputs, as in HLO (see src/ops/binary.cpp).
#include "kernels/simd/element_classes.h"
#include "kernels/simd/registration.h"

namespace tessera::kernels::TESSERA_ISA {
namespace {

template <class C>
inline constexpr int kBits = static_cast<int>(8 * sizeof(C));

struct Op_add : All {
  template <class C>
  TESSERA_INLINE C run(C a, C b) {
    if constexpr (kReal<C>)
      return a + b;
    else if constexpr (kPredicate<C>)
      return a | b;
    else
      return wrapping(a, b, [](auto x, auto y) { return x + y; });
  }
};
struct Op_subtract : Numbers {
  template <class C>
  TESSERA_INLINE C run(C a, C b) {
    if constexpr (kReal<C>)
      return a - b;
    else
      return wrapping(a, b, [](auto x, auto y) { return x - y; });
  }
};
struct Op_multiply : All {
  template <class C>
  TESSERA_INLINE C run(C a, C b) {
    if constexpr (kReal<C>)
      return a * b;
    else if constexpr (kPredicate<C>)
      return a & b;
    else if constexpr (kBits<C> == 32)
      return static_cast<C>(static_cast<std::uint32_t>(a) * static_cast<std::uint32_t>(b));
    else
      return wrapping(a, b, [](auto x, auto y) { return x * y; });
  }
};
struct Op_divide : Numbers {
  template <class C>
  TESSERA_INLINE C run(C a, C b) {
    if constexpr (kReal<C>) {
      return a / b;
    } else {
      if (b == 0) return static_cast<C>(~std::uint64_t{0});
      if constexpr (is_signed_int(kDTypeOf<C>))
        if (b == -1) return wrapping(C(0), a, [](auto x, auto y) { return x - y; });
      return static_cast<C>(a / b);
    }
  }
};
struct Op_remainder : Numbers {
  template <class C>
  TESSERA_INLINE C run(C a, C b) {
    if constexpr (kReal<C>) {
      return fmod_of(a, b);
    } else {
      if (b == 0) return a;
      if constexpr (is_signed_int(kDTypeOf<C>))
        if (b == -1) return 0;
      return static_cast<C>(a % b);
    }
  }
};
struct Op_power : Numbers {
  template <class C>
  TESSERA_INLINE C run(C a, C b) {
    if constexpr (kReal<C>) {
      return pow_of(a, b);
    } else {
      if constexpr (is_signed_int(kDTypeOf<C>)) {
        if (b < 0) return a == -1 ? ((b & 1) != 0 ? C(-1) : C(1)) : (a == 1 ? C(1) : C(0));
      }
      auto base = static_cast<std::uint64_t>(a);  // NOLINT(bugprone-signed-char-misuse): keeps the sign
      std::uint64_t out = 1;
      auto e = static_cast<std::uint64_t>(b);  // NOLINT(bugprone-signed-char-misuse)
      for (; e != 0; e >>= 1, base *= base)
        if ((e & 1) != 0) out *= base;
      return static_cast<C>(out);
    }
  }
};
struct Op_maximum : All {
  template <class C>
  TESSERA_INLINE C run(C a, C b) {
    if constexpr (kReal<C>)
      return larger_of(a, b);
    else if constexpr (kPredicate<C>)
      return a | b;
    else
      return a >= b ? a : b;
  }
};
struct Op_minimum : All {
  template <class C>
  TESSERA_INLINE C run(C a, C b) {
    if constexpr (kReal<C>)
      return smaller_of(a, b);
    else if constexpr (kPredicate<C>)
      return a & b;
    else
      return a <= b ? a : b;
  }
};
struct Op_atan2 : Reals {
  template <class C>
  TESSERA_INLINE C run(C a, C b) {
    return atan2_of(a, b);
  }
};
struct Op_bit_and : Bits {
  template <class C>
  TESSERA_INLINE C run(C a, C b) {
    return static_cast<C>(a & b);
  }
};
struct Op_bit_or : Bits {
  template <class C>
  TESSERA_INLINE C run(C a, C b) {
    return static_cast<C>(a | b);
  }
};
struct Op_bit_xor : Bits {
  template <class C>
  TESSERA_INLINE C run(C a, C b) {
    return static_cast<C>(a ^ b);
  }
};
template <class C>
TESSERA_INLINE bool shifts_out(C by) {
  return static_cast<typename UnsignedOf<C>::type>(by) >= kBits<C>;
}
struct Op_shift_left : Integers {
  template <class C>
  TESSERA_INLINE C run(C x, C by) {
    using U = typename UnsignedOf<C>::type;
    const int amount = static_cast<int>(static_cast<U>(by) & (kBits<C> - 1));
    return shifts_out(by) ? C(0) : static_cast<C>(static_cast<U>(x) << amount);
  }
};
struct Op_shift_right_zeros : Integers {
  template <class C>
  TESSERA_INLINE C run(C x, C by) {
    using U = typename UnsignedOf<C>::type;
    const int amount = static_cast<int>(static_cast<U>(by) & (kBits<C> - 1));
    return shifts_out(by) ? C(0) : static_cast<C>(static_cast<U>(x) >> amount);
  }
};
struct Op_shift_right_sign : Integers {
  template <class C>
  TESSERA_INLINE C run(C x, C by) {
    using U = typename UnsignedOf<C>::type;
    const std::int64_t extended =
        static_cast<std::int64_t>(static_cast<std::uint64_t>(static_cast<U>(x)) << (64 - kBits<C>)) >> (64 - kBits<C>);
    const int amount = static_cast<int>(static_cast<U>(by) & (kBits<C> - 1));
    return static_cast<C>(extended >> (shifts_out(by) ? 63 : amount));
  }
};

template <class T, class F>
void run_binary(const TileArgs& args) {
  const T* a = static_cast<const T*>(args.in[0]);
  const T* b = static_cast<const T*>(args.in[1]);
  T* out = static_cast<T*>(args.out);
  const std::int64_t count = args.count;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) out[i] = Storer<T>::store(F::run(load(a[i]), load(b[i])));
}

// ---- comparisons ------------------------------------------------------------------------------------------------------------

struct Equal {
  template <class C>
  TESSERA_INLINE bool run(C a, C b) {
    return a == b;
  }
};
struct NotEqual {
  template <class C>
  TESSERA_INLINE bool run(C a, C b) {
    return a != b;
  }
};
struct Less {
  template <class C>
  TESSERA_INLINE bool run(C a, C b) {
    return a < b;
  }
};
struct LessEqual {
  template <class C>
  TESSERA_INLINE bool run(C a, C b) {
    return a <= b;
  }
};
struct Greater {
  template <class C>
  TESSERA_INLINE bool run(C a, C b) {
    return a > b;
  }
};
struct GreaterEqual {
  template <class C>
  TESSERA_INLINE bool run(C a, C b) {
    return a >= b;
  }
};

template <class T, class F>
void run_compare(const TileArgs& args) {
  const T* a = static_cast<const T*>(args.in[0]);
  const T* b = static_cast<const T*>(args.in[1]);
  bool* out = static_cast<bool*>(args.out);
  const std::int64_t count = args.count;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) out[i] = F::run(load(a[i]), load(b[i]));
}

// Maps floats to integers in the total order -NaN < -inf < … < -0 < +0 < … < inf < NaN.
TESSERA_INLINE std::int32_t order_key(float x) {
  const auto bits = bits_as<std::int32_t>(x);
  return bits >= 0 ? bits : bits ^ 0x7fffffff;
}
TESSERA_INLINE std::int64_t order_key(double x) {
  const auto bits = bits_as<std::int64_t>(x);
  return bits >= 0 ? bits : bits ^ 0x7fffffffffffffff;
}
template <class T, class F>
void run_compare_total(const TileArgs& args) {
  const T* a = static_cast<const T*>(args.in[0]);
  const T* b = static_cast<const T*>(args.in[1]);
  bool* out = static_cast<bool*>(args.out);
  for (std::int64_t i = 0; i < args.count; ++i) out[i] = F::run(order_key(load(a[i])), order_key(load(b[i])));
}

template <class T>
void add_comparisons(KernelSet& set) {
  const int t = static_cast<int>(kDTypeOf<T>);
  TileFunction* const column[6] = {&set.compare[0][t], &set.compare[1][t], &set.compare[2][t],
                                   &set.compare[3][t], &set.compare[4][t], &set.compare[5][t]};
  *column[0] = run_compare<T, Equal>;
  *column[1] = run_compare<T, NotEqual>;
  *column[2] = run_compare<T, Less>;
  *column[3] = run_compare<T, LessEqual>;
  *column[4] = run_compare<T, Greater>;
  *column[5] = run_compare<T, GreaterEqual>;
  if constexpr (kIsFloatingClass<T>) {
    set.compare_total[0][t] = run_compare_total<T, Equal>;
    set.compare_total[1][t] = run_compare_total<T, NotEqual>;
    set.compare_total[2][t] = run_compare_total<T, Less>;
    set.compare_total[3][t] = run_compare_total<T, LessEqual>;
    set.compare_total[4][t] = run_compare_total<T, Greater>;
    set.compare_total[5][t] = run_compare_total<T, GreaterEqual>;
  }
}

// ---- select, clamp ------------------------------------------------------------------------------------------------------------

template <class Word>
void run_select(const TileArgs& args) {
  const auto* predicate = static_cast<const std::uint8_t*>(args.in[0]);
  const Word* on_true = static_cast<const Word*>(args.in[1]);
  const Word* on_false = static_cast<const Word*>(args.in[2]);
  Word* out = static_cast<Word*>(args.out);
  const std::int64_t count = args.count;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const Word a = on_true[i];
    const Word b = on_false[i];
    out[i] = predicate[i] != 0 ? a : b;
  }
}

template <class Word>
void run_fill(void* to, const void* value, std::int64_t count) {
  const Word word = *static_cast<const Word*>(value);
  Word* out = static_cast<Word*>(to);
  for (std::int64_t i = 0; i < count; ++i) out[i] = word;
}

template <class T>
void run_clamp(const TileArgs& args) {
  const T* low = static_cast<const T*>(args.in[0]);
  const T* x = static_cast<const T*>(args.in[1]);
  const T* high = static_cast<const T*>(args.in[2]);
  T* out = static_cast<T*>(args.out);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < args.count; ++i) {
    const auto l = load(low[i]);
    const auto v = load(x[i]);
    const auto h = load(high[i]);
    if constexpr (kIsFloatingClass<T>) {
      out[i] = Storer<T>::store(smaller_of(larger_of(v, l), h));
    } else {
      const auto raised = v < l ? l : v;
      out[i] = raised > h ? h : raised;
    }
  }
}

template <class T>
void add_binary(KernelSet& set) {
  const int t = static_cast<int>(kDTypeOf<T>);
#define TESSERA_ADD(word, name)                \
  if constexpr (Op_##word::template kTakes<T>) \
    set.binary[static_cast<int>(BinaryOp::word)][t] = run_binary<T, Op_##word>;
  TESSERA_BINARY_OPS(TESSERA_ADD)
#undef TESSERA_ADD
  add_comparisons<T>(set);
  if constexpr (kDTypeOf<T> != DType::kPred) set.clamp[t] = run_clamp<T>;
}

}  // namespace

void add_binary(KernelSet& set) {
  for_each_dtype([&]<class T>() { add_binary<T>(set); });
  set.fill[0] = run_fill<std::uint8_t>;
  set.fill[1] = run_fill<std::uint16_t>;
  set.fill[2] = run_fill<std::uint32_t>;
  set.fill[3] = run_fill<std::uint64_t>;
  set.select[0] = run_select<std::uint8_t>;
  set.select[1] = run_select<std::uint16_t>;
  set.select[2] = run_select<std::uint32_t>;
  set.select[3] = run_select<std::uint64_t>;
}

}  // namespace tessera::kernels::TESSERA_ISA
