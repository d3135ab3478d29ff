// SPDX-License-Identifier: Apache-2.0
#include "reduce.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "kernels/sum_kernels.h"
#include "tessera/base/error.h"
#include "tessera/tensor/narrow_dtype.h"

namespace tessera::collectives {
namespace {

// A block of the accumulator stays in the L1 cache while all sources are added.
constexpr std::size_t kBlockElements = 2048;

// Wrapping arithmetic without undefined behaviour: unsigned types wrap, and sums of small types fit into int.
template <class T>
T wrap_add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  } else {
    return a + b;
  }
}
template <class T>
T wrap_multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::common_type_t<std::make_unsigned_t<T>, unsigned>;  // u16 * u16 would overflow int
    return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  } else {
    return a * b;
  }
}

struct Sum {
  template <class T>
  static T apply(T a, T b) {
    return wrap_add(a, b);
  }
};
struct Product {
  template <class T>
  static T apply(T a, T b) {
    return wrap_multiply(a, b);
  }
};
struct Min {
  template <class T>
  static T apply(T a, T b) {
    return a < b || a != a ? a : b;
  }
};
struct Max {
  template <class T>
  static T apply(T a, T b) {
    return a > b || a != a ? a : b;
  }
};
struct And {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};

// Converts between f16 and f32 with integer arithmetic without branches, so that loops vectorize.
struct HalfBits {
  static float widen(std::uint16_t half) {
    const std::uint32_t shifted = (half & 0x7fffU) << 13;
    const std::uint32_t exponent = shifted & 0x0f800000U;
    std::uint32_t bits = shifted + ((127U - 15U) << 23);
    bits += exponent == 0x0f800000U ? (128U - 16U) << 23 : 0U;  // Inf, NaN
    const float subnormal = std::bit_cast<float>(shifted + ((127U - 14U) << 23)) - std::bit_cast<float>(113U << 23);
    const std::uint32_t magnitude = exponent == 0 ? std::bit_cast<std::uint32_t>(subnormal) : bits;
    return std::bit_cast<float>(magnitude | ((half & 0x8000U) << 16));
  }
  static std::uint16_t narrow(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = word & 0x7fffffffU;
    // The addition of 0.5 rounds a subnormal to a multiple of 2^-24, ties to even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5F);
    const std::uint32_t normal = (magnitude - (112U << 23) + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
    std::uint32_t half = magnitude < (113U << 23) ? subnormal : normal;
    half = magnitude >= 0x47800000U ? 0x7c00U : half;  // 2^16 and above
    half = magnitude > 0x7f800000U ? 0x7e00U : half;
    return static_cast<std::uint16_t>(half | ((word >> 16) & 0x8000U));
  }
};
struct BrainBits {
  static float widen(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  static std::uint16_t narrow(float value) { return BFloat16(value).bits; }
};

template <class T, class Op>
void reduce_block(std::span<const std::byte* const> sources, T* out, std::size_t offset, std::size_t count) {
  std::array<T, kBlockElements> accumulator;
  std::memcpy(accumulator.data(), sources[0] + offset, count * sizeof(T));
  for (const std::byte* source : sources.subspan(1)) {
    const T* from = reinterpret_cast<const T*>(source + offset);
    for (std::size_t i = 0; i < count; ++i) accumulator[i] = Op::template apply<T>(accumulator[i], from[i]);
  }
  std::memcpy(out, accumulator.data(), count * sizeof(T));
}

template <class Bits, class Op>
void reduce_block16(std::span<const std::byte* const> sources, std::uint16_t* out, std::size_t offset,
                    std::size_t count) {
  std::array<float, kBlockElements> accumulator;
  const auto* first = reinterpret_cast<const std::uint16_t*>(sources[0] + offset);
  for (std::size_t i = 0; i < count; ++i) accumulator[i] = Bits::widen(first[i]);
  for (const std::byte* source : sources.subspan(1)) {
    const auto* from = reinterpret_cast<const std::uint16_t*>(source + offset);
    for (std::size_t i = 0; i < count; ++i)
      accumulator[i] = Op::template apply<float>(accumulator[i], Bits::widen(from[i]));
  }
  for (std::size_t i = 0; i < count; ++i) out[i] = Bits::narrow(accumulator[i]);
}

template <class T, class Block>
void for_blocks(std::byte* out, std::size_t bytes, Block&& block) {
  const std::size_t count = bytes / sizeof(T);
  for (std::size_t done = 0; done < count; done += kBlockElements)
    block(reinterpret_cast<T*>(out) + done, done * sizeof(T), std::min(kBlockElements, count - done));
}

template <class T, class Op>
void reduce_as(std::span<const std::byte* const> sources, std::byte* out, std::size_t bytes) {
  if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>) {
    using Bits = std::conditional_t<std::is_same_v<T, BFloat16>, BrainBits, HalfBits>;
    for_blocks<std::uint16_t>(out, bytes, [&](std::uint16_t* to, std::size_t offset, std::size_t count) {
      reduce_block16<Bits, Op>(sources, to, offset, count);
    });
  } else {
    for_blocks<T>(out, bytes, [&](T* to, std::size_t offset, std::size_t count) {
      reduce_block<T, Op>(sources, to, offset, count);
    });
  }
}

template <class T>
void reduce_typed(std::span<const std::byte* const> sources, std::byte* out, std::size_t bytes, Reduction op) {
  if (op == Reduction::kSum) return reduce_as<T, Sum>(sources, out, bytes);
  if (op == Reduction::kProduct) return reduce_as<T, Product>(sources, out, bytes);
  if constexpr (!is_complex(kDTypeOf<T>)) {
    if (op == Reduction::kMin) return reduce_as<T, Min>(sources, out, bytes);
    if (op == Reduction::kMax) return reduce_as<T, Max>(sources, out, bytes);
  }
  if constexpr (std::is_integral_v<T>) {
    if (op == Reduction::kAnd) return reduce_as<T, And>(sources, out, bytes);
    return reduce_as<T, Or>(sources, out, bytes);
  } else {
    ensure(false, "a reduction that its type does not have");
  }
}

// A pred is one byte, 0 or 1: sum and max are or; product and min are and.
Reduction pred_reduction(Reduction op) {
  const bool is_or = op == Reduction::kSum || op == Reduction::kMax || op == Reduction::kOr;
  return is_or ? Reduction::kOr : Reduction::kAnd;
}

// For types of one byte or less: each step rounds or wraps, as the op does.
std::byte narrow_pair(DType dtype, Reduction op, std::byte a, std::byte b) {
  if (op == Reduction::kAnd) return a & b;
  if (op == Reduction::kOr) return a | b;
  const double x = narrow_value(dtype, std::to_integer<std::uint8_t>(a));
  const double y = narrow_value(dtype, std::to_integer<std::uint8_t>(b));
  const double value = op == Reduction::kSum       ? x + y
                       : op == Reduction::kProduct ? x * y
                       : op == Reduction::kMin     ? Min::apply(x, y)
                                                   : Max::apply(x, y);
  return static_cast<std::byte>(narrow_bits(dtype, value));
}

void reduce_narrow(std::span<const std::byte* const> sources, std::byte* out, std::size_t bytes, DType dtype,
                   Reduction op) {
  for (std::size_t i = 0; i < bytes; ++i) {
    std::byte value = sources[0][i];
    for (const std::byte* source : sources.subspan(1)) value = narrow_pair(dtype, op, value, source[i]);
    out[i] = value;
  }
}

// The sums that dominate training; null for others.
SumFunction sum_function(DType dtype) {
  const SumKernels& kernels = sum_kernels();
  if (dtype == DType::kF32) return kernels.f32;
  if (dtype == DType::kF64) return kernels.f64;
  return dtype == DType::kBF16 ? kernels.bf16 : nullptr;
}

}  // namespace

bool can_reduce(DType dtype, Reduction op) {
  if (is_complex(dtype)) return op == Reduction::kSum || op == Reduction::kProduct;
  return !is_any_float(dtype) || (op != Reduction::kAnd && op != Reduction::kOr);
}

void reduce_ordered(std::span<const std::byte* const> sources, std::byte* out, std::size_t bytes, DType dtype,
                    Reduction op) {
  if (bytes == 0) return;
  if (sources.size() == 1) {
    std::memmove(out, sources[0], bytes);
    return;
  }
  if (op == Reduction::kSum)
    if (const SumFunction sum = sum_function(dtype)) {
      const auto count = static_cast<long>(bytes / static_cast<std::size_t>(dtype_size(dtype)));
      return sum(reinterpret_cast<const void* const*>(sources.data()), static_cast<long>(sources.size()), out, count);
    }
  if (dtype == DType::kPred) return reduce_typed<std::uint8_t>(sources, out, bytes, pred_reduction(op));
  if (is_narrow(dtype)) return reduce_narrow(sources, out, bytes, dtype, op);
  visit_any_dtype(dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool>) reduce_typed<T>(sources, out, bytes, op);
  });
}

}  // namespace tessera::collectives
