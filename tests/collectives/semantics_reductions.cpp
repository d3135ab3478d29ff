// SPDX-License-Identifier: Apache-2.0
// The requirements on reductions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "collectives/semantics.h"
#include "tessera/base/error.h"

namespace tessera::testing {
namespace {

// vector<bool> has no data(): pred is tested as bytes.
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;

std::int64_t small_value(int rank, std::size_t i) {
  return static_cast<std::int64_t>((i * 7 + static_cast<std::size_t>(rank) * 3) % 4);
}

template <class T>
Stored<T> make(std::int64_t value) {
  if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>)
    return T(static_cast<float>(value));
  else
    return static_cast<Stored<T>>(value);
}

std::int64_t expected_value(int ranks, std::size_t i, Reduction op, bool pred) {
  std::int64_t acc = 0;
  for (int r = 0; r < ranks; ++r) {
    const std::int64_t v = op == Reduction::kProduct && !pred ? (small_value(r, i) == 0 ? 2 : 1)
                           : pred                             ? small_value(r, i) % 2
                                                              : small_value(r, i);
    if (r == 0)
      acc = v;
    else if (op == Reduction::kSum)
      acc = pred ? acc | v : acc + v;
    else if (op == Reduction::kProduct)
      acc *= v;
    else if (op == Reduction::kMin)
      acc = std::min(acc, v);
    else if (op == Reduction::kMax)
      acc = std::max(acc, v);
    else if (op == Reduction::kAnd)
      acc &= v;
    else
      acc |= v;
  }
  return acc;
}

template <class T>
std::vector<Stored<T>> operand(int rank, std::size_t count, Reduction op) {
  std::vector<Stored<T>> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t v = small_value(rank, i);
    const bool pred = std::is_same_v<T, bool>;
    values[i] = make<T>(pred ? v % 2 : op == Reduction::kProduct ? (v == 0 ? 2 : 1) : v);
  }
  return values;
}

template <class T>
bool same(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

constexpr Reduction kReductions[] = {Reduction::kSum, Reduction::kProduct, Reduction::kMin,
                                     Reduction::kMax, Reduction::kAnd,     Reduction::kOr};

template <class T>
void check_reductions(ProcessGroup& g, DType dtype) {
  for (const Reduction op : kReductions) {
    if (is_float(dtype) && (op == Reduction::kAnd || op == Reduction::kOr)) continue;
    for (const std::size_t count : {std::size_t{1}, std::size_t{7}, std::size_t{211}}) {
      const auto n = static_cast<std::size_t>(g.size());
      const auto in = operand<T>(g.rank(), count * n, op);
      std::vector<Stored<T>> reduced(count * n);
      std::vector<Stored<T>> part(count);
      g.all_reduce(bytes_of(in), bytes_of(reduced), dtype, op);
      g.reduce_scatter(bytes_of(in), bytes_of(part), dtype, op);
      for (std::size_t i = 0; i < count * n; ++i) {
        const auto expected = make<T>(expected_value(g.size(), i, op, std::is_same_v<T, bool>));
        ASSERT_TRUE(same(reduced[i], expected))
            << dtype_name(dtype) << " " << reduction_name(op) << " all_reduce at " << i;
        const std::size_t begin = count * static_cast<std::size_t>(g.rank());
        if (i < begin || i >= begin + count) continue;
        ASSERT_TRUE(same(part[i - begin], expected))
            << dtype_name(dtype) << " " << reduction_name(op) << " reduce_scatter at " << i;
      }
    }
  }
}

void reductions_hold_for_every_type(ProcessGroup& g) {
  for (int t = 0; t < kDTypeCount; ++t)
    visit_dtype(static_cast<DType>(t), [&]<class T>() { check_reductions<T>(g, static_cast<DType>(t)); });
}

// Sums and products of complex numbers, which need both parts. Other reductions are not defined for them.
template <class T>
void check_complex(ProcessGroup& g, DType dtype) {
  using Part = typename T::value_type;
  const auto value = [](int rank, std::size_t i) {
    return T(static_cast<Part>(small_value(rank, i) - 1), static_cast<Part>(small_value(rank + 1, i)));
  };
  const std::size_t count = 7 * static_cast<std::size_t>(g.size());
  for (const Reduction op : {Reduction::kSum, Reduction::kProduct}) {
    std::vector<T> in(count);
    std::vector<T> expected(count);
    for (std::size_t i = 0; i < count; ++i) {
      in[i] = value(g.rank(), i);
      expected[i] = value(0, i);
      for (int r = 1; r < g.size(); ++r) {
        const T a = expected[i];
        const T b = value(r, i);
        expected[i] = op == Reduction::kSum
                          ? T(a.real() + b.real(), a.imag() + b.imag())
                          : T(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
      }
    }
    std::vector<T> reduced(count);
    std::vector<T> part(7);
    g.all_reduce(bytes_of(in), bytes_of(reduced), dtype, op);
    g.reduce_scatter(bytes_of(in), bytes_of(part), dtype, op);
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(reduced[i], expected[i]) << reduction_name(op) << " at " << i;
    for (std::size_t i = 0; i < part.size(); ++i)
      ASSERT_EQ(part[i], expected[7 * static_cast<std::size_t>(g.rank()) + i]) << reduction_name(op) << " at " << i;
  }
  std::vector<T> in(3);
  std::vector<T> out(3);
  EXPECT_THROW(g.all_reduce(bytes_of(in), bytes_of(out), dtype, Reduction::kMax), Error);
}

void sums_and_products_hold_for_complex_numbers(ProcessGroup& g) {
  check_complex<Complex64>(g, DType::kC64);
  check_complex<Complex128>(g, DType::kC128);
}

// s4 wraps. f8e5m2 has a mantissa of 2 bits: 8 + 1 is 8.
void narrow_types_wrap_and_round(ProcessGroup& g) {
  const auto reduced = [&](DType dtype, double value, Reduction op) {
    const std::vector<std::byte> in(5, static_cast<std::byte>(narrow_bits(dtype, value)));
    std::vector<std::byte> out(5);
    g.all_reduce(bytes_of(in), bytes_of(out), dtype, op);
    return narrow_value(dtype, std::to_integer<std::uint8_t>(out.back()));
  };
  const int n = g.size();
  EXPECT_EQ(reduced(DType::kS4, 5, Reduction::kSum), (5 * n + 8) % 16 - 8);
  EXPECT_EQ(reduced(DType::kU4, g.rank() == 0 ? 9 : 14, Reduction::kMin), 9);
  EXPECT_EQ(reduced(DType::kS4, g.rank() == n - 1 ? -7 : -8, Reduction::kMax), -7);
  const double rounded = reduced(DType::kF8E5M2, g.rank() == 0 ? 8 : 1, Reduction::kSum);
  EXPECT_TRUE(rounded == 8 || n > 2) << rounded;  // with more ranks the result depends on the order of the nodes
  EXPECT_EQ(reduced(DType::kF8E4M3FN, g.rank() < 3 ? -2 : 1, Reduction::kProduct), std::pow(-2, std::min(n, 3)));
}

void large_reductions_are_right(ProcessGroup& g) {
  for (const std::size_t count :
       {std::size_t{3}, uses_large_payloads && g.size() <= 4 ? std::size_t{700001} : std::size_t{20011}}) {
    const auto n = static_cast<std::size_t>(g.size());
    std::vector<float> in(count * n);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(small_value(g.rank(), i));
    std::vector<float> part(count);
    g.reduce_scatter(bytes_of(in), bytes_of(part), DType::kF32, Reduction::kSum);
    for (std::size_t i = 0; i < count; i += 7)
      ASSERT_EQ(part[i], static_cast<float>(expected_value(g.size(), count * static_cast<std::size_t>(g.rank()) + i,
                                                           Reduction::kSum, false)));
    in.resize(count);
    std::vector<float> separate(count);
    g.all_reduce(bytes_of(in), bytes_of(separate), DType::kF32, Reduction::kSum);
    for (std::size_t i = 0; i < count; i += 7)
      ASSERT_EQ(separate[i], static_cast<float>(expected_value(g.size(), i, Reduction::kSum, false))) << i;
    g.all_reduce(bytes_of(in), bytes_of(in), DType::kF32, Reduction::kSum);  // in place
    ASSERT_TRUE(in == separate);
  }
}

// Values of very different magnitudes: the result depends on the order, which must be the same on every rank and in
// every run.
template <class T>
void check_same_bits(ProcessGroup& g, DType dtype) {
  const std::size_t count = 1003;
  std::vector<T> in(count);
  std::vector<float> wide(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double value = std::sin(static_cast<double>(i) * 12.9898 + g.rank() * 78.233) *
                         std::pow(10.0, (g.rank() * 5 + static_cast<int>(i)) % 5);
    in[i] = T(static_cast<float>(value));
  }
  std::vector<T> out(count);
  g.all_reduce(bytes_of(in), bytes_of(out), dtype, Reduction::kSum);
  std::vector<T> again(count);
  g.all_reduce(bytes_of(in), bytes_of(again), dtype, Reduction::kSum);
  ASSERT_EQ(std::memcmp(out.data(), again.data(), count * sizeof(T)), 0);
  const auto n = static_cast<std::size_t>(g.size());
  std::vector<T> gathered(count * n);
  g.all_gather(bytes_of(out), bytes_of(gathered));
  for (std::size_t r = 0; r < n; ++r)
    ASSERT_EQ(std::memcmp(gathered.data() + r * count, out.data(), count * sizeof(T)), 0)
        << dtype_name(dtype) << ": ranks " << r << " and " << g.rank() << " hold different bits";
  if (g.traffic().mpi_payload != 0) return;  // between nodes the order follows the nodes
  std::vector<T> all(count * n);
  g.all_gather(bytes_of(in), bytes_of(all));
  for (std::size_t i = 0; i < count; ++i) {
    using Wide = std::conditional_t<sizeof(T) == 8, double, float>;
    Wide sum = static_cast<Wide>(all[i]);
    for (std::size_t r = 1; r < n; ++r) sum += static_cast<Wide>(all[r * count + i]);
    ASSERT_TRUE(same(out[i], T(sum))) << dtype_name(dtype) << " is not reduced in rank order at " << i;
  }
}

void reductions_give_every_rank_the_same_bits(ProcessGroup& g) {
  check_same_bits<float>(g, DType::kF32);
  check_same_bits<double>(g, DType::kF64);
  check_same_bits<BFloat16>(g, DType::kBF16);
  check_same_bits<Float16>(g, DType::kF16);
}

void min_and_max_keep_nan(ProcessGroup& g) {
  for (const Reduction op : {Reduction::kMin, Reduction::kMax})
    for (int where = 0; where < g.size(); ++where) {
      const std::vector<float> in(3, g.rank() == where ? std::nanf("") : 1.0F);
      std::vector<float> out(3);
      g.all_reduce(bytes_of(in), bytes_of(out), DType::kF32, op);
      EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[2]));
    }
}

void non_blocking_forms_give_the_same(ProcessGroup& g) {
  const auto n = static_cast<std::size_t>(g.size());
  const std::size_t count = 10007;
  std::vector<float> in(count * n);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(small_value(g.rank(), i));
  std::vector<float> reduced(count * n);
  std::vector<float> part(count);
  std::vector<float> gathered(count * n * n);
  auto first = g.start_all_reduce(bytes_of(in), bytes_of(reduced), DType::kF32, Reduction::kSum);
  auto second = g.start_reduce_scatter(bytes_of(in), bytes_of(part), DType::kF32, Reduction::kSum);
  auto third = g.start_all_gather(bytes_of(in), bytes_of(gathered));
  third->wait();        // in another order than they were started
  (void)first->test();  // a collective with several ranks on several nodes ends only in wait()
  first->wait();
  while (!second->test()) {
  }
  second->wait();
  for (std::size_t i = 0; i < count * n; i += 11) {
    const auto expected = static_cast<float>(expected_value(g.size(), i, Reduction::kSum, false));
    ASSERT_EQ(reduced[i], expected);
    for (int r = 0; r < g.size(); ++r)
      ASSERT_EQ(gathered[static_cast<std::size_t>(r) * count * n + i], static_cast<float>(small_value(r, i)));
  }
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(part[i], reduced[count * static_cast<std::size_t>(g.rank()) + i]);
}

}  // namespace

std::vector<SemanticsCase> reduction_cases() {
  return {{"ReductionsHoldForEveryType", reductions_hold_for_every_type},
          {"SumsAndProductsHoldForComplexNumbers", sums_and_products_hold_for_complex_numbers},
          {"NarrowTypesWrapAndRound", narrow_types_wrap_and_round},
          {"LargeReductionsAreRight", large_reductions_are_right},
          {"ReductionsGiveEveryRankTheSameBits", reductions_give_every_rank_the_same_bits},
          {"MinAndMaxKeepNan", min_and_max_keep_nan},
          {"NonBlockingFormsGiveTheSame", non_blocking_forms_give_the_same}};
}

}  // namespace tessera::testing
