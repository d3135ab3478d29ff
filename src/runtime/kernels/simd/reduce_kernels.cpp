// SPDX-License-Identifier: Apache-2.0
// Reduces rows and columns. Sums and products of floats are accumulated in double, extrema in the compute type. The
// order depends only on the count, so that all instruction sets give the same result.
#include "kernels/simd/element_classes.h"
#include "kernels/simd/registration.h"

namespace tessera::kernels::TESSERA_ISA {
namespace {

template <class T, class F>
struct AccumulatorOf {
  using type = T;
};
template <class F>
struct AccumulatorOf<float, F> {
  using type = typename F::Wide;
};
template <class F>
struct AccumulatorOf<BFloat16, F> {
  using type = typename F::Wide;
};
template <class F>
struct AccumulatorOf<Float16, F> {
  using type = typename F::Wide;
};
template <class T, class F>
using Accumulator = typename AccumulatorOf<T, F>::type;

struct Sum {
  using Wide = double;
  template <class A>
  TESSERA_INLINE A run(A a, A b) {
    if constexpr (kReal<A>)
      return a + b;
    else if constexpr (kPredicate<A>)
      return a | b;
    else
      return wrapping(a, b, [](auto x, auto y) { return x + y; });
  }
};
struct Product {
  using Wide = double;
  template <class A>
  TESSERA_INLINE A run(A a, A b) {
    if constexpr (kReal<A>)
      return a * b;
    else if constexpr (kPredicate<A>)
      return a & b;
    else
      return wrapping(a, b, [](auto x, auto y) { return x * y; });
  }
};
struct Min {
  using Wide = float;
  template <class A>
  TESSERA_INLINE A run(A a, A b) {
    if constexpr (kReal<A>)
      return a != a ? a : (b != b ? b : (a <= b ? a : b));
    else if constexpr (kPredicate<A>)
      return a & b;
    else
      return a <= b ? a : b;
  }
};
struct Max {
  using Wide = float;
  template <class A>
  TESSERA_INLINE A run(A a, A b) {
    if constexpr (kReal<A>)
      return a != a ? a : (b != b ? b : (a >= b ? a : b));
    else if constexpr (kPredicate<A>)
      return a | b;
    else
      return a >= b ? a : b;
  }
};

template <class T, class F>
void run_row(const void* in, std::int64_t count, void* accumulator) {
  using A = Accumulator<T, F>;
  const T* x = static_cast<const T*>(in);
  A* total = static_cast<A*>(accumulator);
  constexpr std::int64_t kLanes = 16;
  std::int64_t i = 0;
  if (count >= 2 * kLanes) {
    A lanes[kLanes];
    for (int l = 0; l < kLanes; ++l) lanes[l] = static_cast<A>(load(x[l]));
    for (i = kLanes; i + kLanes <= count; i += kLanes)
      for (int l = 0; l < kLanes; ++l) lanes[l] = F::run(lanes[l], static_cast<A>(load(x[i + l])));
    for (int width = kLanes / 2; width > 0; width /= 2)
      for (int l = 0; l < width; ++l) lanes[l] = F::run(lanes[l], lanes[l + width]);
    *total = F::run(*total, lanes[0]);
  }
  for (; i < count; ++i) *total = F::run(*total, static_cast<A>(load(x[i])));
}

template <class T, class F>
void run_columns(const void* in, std::int64_t count, void* accumulators) {
  using A = Accumulator<T, F>;
  const T* x = static_cast<const T*>(in);
  A* total = static_cast<A*>(accumulators);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) total[i] = F::run(total[i], static_cast<A>(load(x[i])));
}

template <class T, class F>
void add_op(KernelSet& set, ReduceOp op) {
  const int t = static_cast<int>(kDTypeOf<T>);
  set.reduce_row[static_cast<int>(op)][t] = run_row<T, F>;
  set.reduce_columns[static_cast<int>(op)][t] = run_columns<T, F>;
}

}  // namespace

void add_reduce(KernelSet& set) {
  for_each_dtype([&]<class T>() {
    add_op<T, Sum>(set, ReduceOp::kSum);
    add_op<T, Product>(set, ReduceOp::kProduct);
    add_op<T, Min>(set, ReduceOp::kMin);
    add_op<T, Max>(set, ReduceOp::kMax);
  });
}

}  // namespace tessera::kernels::TESSERA_ISA
