// SPDX-License-Identifier: Apache-2.0
#include "kernels/sum_kernels.h"

namespace tessera::collectives::TESSERA_ISA {
namespace {

#if defined(__AVX512F__)
constexpr long kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr long kVectorBytes = 32;
#else
constexpr long kVectorBytes = 16;
#endif
constexpr long kVectors = 4;  // per block: held in registers while all sources are added

using Bits16 = unsigned short;
using Bits32 = unsigned int;
template <class T, long kBytes>
struct VectorOf {
  using Type __attribute__((vector_size(kBytes))) = T;
};
template <class T, long kBytes = kVectorBytes>
using Vector = typename VectorOf<T, kBytes>::Type;
static_assert(sizeof(Bits16) == 2 && sizeof(Bits32) == 4);

template <class V>
V load(const void* from) {
  V value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}

template <class V>
void store(void* to, V value) {
  __builtin_memcpy(to, &value, sizeof value);
}

// A type that accumulates in its own precision.
template <class T>
struct Plain {
  using Element = T;
  using Wide = Vector<T>;
  static constexpr long kLanes = kVectorBytes / static_cast<long>(sizeof(T));
  static Wide widen(const T* from) { return load<Wide>(from); }
  static void put(T* to, Wide value) { store(to, value); }
  static T add_one(const void* const* sources, long source_count, long i) {
    T sum = static_cast<const T*>(sources[0])[i];
    for (long k = 1; k < source_count; ++k) sum += static_cast<const T*>(sources[k])[i];
    return sum;
  }
};

// A vector of f32 for half a vector of bf16.
struct Brain {
  using Element = Bits16;
  using Wide = Vector<float>;
  static constexpr long kLanes = kVectorBytes / 4;
  using Bits = Vector<Bits32>;
  using Narrow = Vector<Bits16, kVectorBytes / 2>;
  static Wide widen(const Bits16* from) {
    return reinterpret_cast<Wide>(__builtin_convertvector(load<Narrow>(from), Bits) << 16);
  }
  // Rounds to nearest, ties to even; a NaN keeps its upper bits and becomes quiet.
  static void put(Bits16* to, Wide value) {
    const Bits word = reinterpret_cast<Bits>(value);
    const Bits rounded = (word + 0x7fffU + ((word >> 16) & 1U)) >> 16;
    const Bits is_nan = reinterpret_cast<Bits>((word & 0x7fffffffU) > 0x7f800000U);
    store(to, __builtin_convertvector((is_nan & ((word >> 16) | 0x40U)) | (~is_nan & rounded), Narrow));
  }
  static float widen_one(const void* source, long i) {
    const Bits32 word = static_cast<Bits32>(static_cast<const Bits16*>(source)[i]) << 16;
    float value;
    __builtin_memcpy(&value, &word, sizeof value);
    return value;
  }
  static Bits16 add_one(const void* const* sources, long source_count, long i) {
    float sum = widen_one(sources[0], i);
    for (long k = 1; k < source_count; ++k) sum += widen_one(sources[k], i);
    Bits32 word;
    __builtin_memcpy(&word, &sum, sizeof word);
    const bool is_nan = (word & 0x7fffffffU) > 0x7f800000U;
    return static_cast<Bits16>(is_nan ? (word >> 16) | 0x40U : (word + 0x7fffU + ((word >> 16) & 1U)) >> 16);
  }
};

template <class Type>
long sum_blocks(const void* const* sources, long source_count, typename Type::Element* out, long count) {
  using Element = typename Type::Element;
  constexpr long kBlock = kVectors * Type::kLanes;
  long i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    typename Type::Wide sums[kVectors];
    for (long v = 0; v < kVectors; ++v)
      sums[v] = Type::widen(static_cast<const Element*>(sources[0]) + i + v * Type::kLanes);
    for (long k = 1; k < source_count; ++k) {
      const Element* from = static_cast<const Element*>(sources[k]) + i;
      for (long v = 0; v < kVectors; ++v) sums[v] += Type::widen(from + v * Type::kLanes);
    }
    for (long v = 0; v < kVectors; ++v) Type::put(out + i + v * Type::kLanes, sums[v]);
  }
  return i;
}

template <class Type>
void sum(const void* const* sources, long source_count, void* out, long count) {
  auto* to = static_cast<typename Type::Element*>(out);
  for (long i = sum_blocks<Type>(sources, source_count, to, count); i < count; ++i)
    to[i] = Type::add_one(sources, source_count, i);
}

}  // namespace

const SumKernels& sum_kernels() {
  static constexpr SumKernels kKernels{sum<Plain<float>>, sum<Plain<double>>, sum<Brain>};
  return kKernels;
}

}  // namespace tessera::collectives::TESSERA_ISA
