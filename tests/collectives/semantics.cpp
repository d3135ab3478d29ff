// SPDX-License-Identifier: Apache-2.0
#include "collectives/semantics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tessera/base/error.h"

namespace tessera::testing {
namespace {

// 0 bytes, odd sizes, sizes below the number of ranks, and three chunks of a staging area.
std::vector<std::size_t> sizes(const ProcessGroup& g) {
  std::vector<std::size_t> out = {0, 1, 3, 7, 64, 1009, 20011};
  if (uses_large_payloads && g.size() <= 4) out.push_back(2500003);
  return out;
}

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

std::uint8_t pattern(int rank, std::size_t i) {
  return static_cast<std::uint8_t>(i * 31 + static_cast<std::size_t>(rank) * 101 + (i >> 8));
}

std::vector<std::uint8_t> patterned(int rank, std::size_t size) {
  std::vector<std::uint8_t> out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = pattern(rank, i);
  return out;
}

void all_gather_joins_in_rank_order(ProcessGroup& g) {
  for (const auto size : sizes(g)) {
    const auto in = patterned(g.rank(), size);
    std::vector<std::uint8_t> out(size * static_cast<std::size_t>(g.size()), 0xEE);
    g.all_gather(bytes_of(in), bytes_of(out));
    for (int r = 0; r < g.size(); ++r) {
      const auto part = std::vector<std::uint8_t>(out.begin() + static_cast<std::ptrdiff_t>(size) * r,
                                                  out.begin() + static_cast<std::ptrdiff_t>(size) * (r + 1));
      ASSERT_TRUE(part == patterned(r, size)) << "part " << r << " of size " << size << " on rank " << g.rank();
    }
  }
}

void all_gather_works_in_place(ProcessGroup& g) {
  const std::size_t size = 20011;
  std::vector<std::uint8_t> out(size * static_cast<std::size_t>(g.size()));
  const auto own = patterned(g.rank(), size);
  std::copy(own.begin(), own.end(), out.begin() + static_cast<std::ptrdiff_t>(size) * g.rank());
  g.all_gather(bytes_of(out).subspan(size * static_cast<std::size_t>(g.rank()), size), bytes_of(out));
  for (int r = 0; r < g.size(); ++r)
    for (std::size_t i = 0; i < size; i += 97)
      ASSERT_EQ(out[size * static_cast<std::size_t>(r) + i], pattern(r, i)) << r << " " << i;
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
    std::vector<float> whole(count);
    g.all_reduce(bytes_of(in), bytes_of(whole), DType::kF32, Reduction::kSum);
    for (std::size_t i = 0; i < count; i += 7)
      ASSERT_EQ(whole[i], static_cast<float>(expected_value(g.size(), i, Reduction::kSum, false))) << i;
    g.all_reduce(bytes_of(in), bytes_of(in), DType::kF32, Reduction::kSum);  // in place
    ASSERT_TRUE(in == whole);
  }
}

// Addends of very different size: the result depends on the order, which must be the same for everybody, every time.
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
  std::vector<T> everybodys(count * n);
  g.all_gather(bytes_of(out), bytes_of(everybodys));
  for (std::size_t r = 0; r < n; ++r)
    ASSERT_EQ(std::memcmp(everybodys.data() + r * count, out.data(), count * sizeof(T)), 0)
        << dtype_name(dtype) << ": ranks " << r << " and " << g.rank() << " hold different bits";
  if (g.traffic().mpi_payload != 0) return;  // between nodes the order goes node by node
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

void all_to_all_transposes(ProcessGroup& g) {
  for (const auto size : sizes(g)) {
    const auto n = static_cast<std::size_t>(g.size());
    std::vector<std::uint8_t> in;
    std::vector<std::uint8_t> expected;
    for (int k = 0; k < g.size(); ++k) {
      const auto sent = patterned(g.rank() * 16 + k, size);
      const auto received = patterned(k * 16 + g.rank(), size);
      in.insert(in.end(), sent.begin(), sent.end());
      expected.insert(expected.end(), received.begin(), received.end());
    }
    std::vector<std::uint8_t> out(size * n, 0xEE);
    g.all_to_all(bytes_of(in), bytes_of(out));
    ASSERT_TRUE(out == expected) << "size " << size << " on rank " << g.rank();
  }
}

void check_permute(ProcessGroup& g, std::size_t size, const std::vector<std::pair<int, int>>& pairs) {
  const auto in = patterned(g.rank(), size);
  std::vector<std::uint8_t> out(size, 0xEE);
  g.permute(bytes_of(in), bytes_of(out), pairs);
  int source = -1;
  for (const auto& [from, to] : pairs)
    if (to == g.rank()) source = from;
  const auto expected = source < 0 ? std::vector<std::uint8_t>(size, 0) : patterned(source, size);
  ASSERT_TRUE(out == expected) << "size " << size << " on rank " << g.rank();
}

void permute_moves_pairs_and_zeroes_the_rest(ProcessGroup& g) {
  const int n = g.size();
  std::vector<std::pair<int, int>> ring;
  std::vector<std::pair<int, int>> shift;
  std::vector<std::pair<int, int>> mirror;
  for (int r = 0; r < n; ++r) {
    ring.emplace_back(r, (r + 1) % n);
    if (r + 1 < n) shift.emplace_back(r + 1, r);
    mirror.emplace_back(r, n - 1 - r);
  }
  for (const auto size : sizes(g))
    for (const auto& pairs : {ring, shift, mirror, {{0, n - 1}}, {}}) check_permute(g, size, pairs);
}

void broadcast_reaches_everybody(ProcessGroup& g) {
  for (const auto size : sizes(g))
    for (int root = 0; root < g.size(); ++root) {
      auto data = patterned(g.rank(), size);
      g.broadcast(bytes_of(data), root);
      ASSERT_TRUE(data == patterned(root, size)) << "root " << root << " size " << size;
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
  third->wait();  // in another order than they were started
  while (!first->test()) {
  }
  first->wait();
  second->wait();
  for (std::size_t i = 0; i < count * n; i += 11) {
    const auto expected = static_cast<float>(expected_value(g.size(), i, Reduction::kSum, false));
    ASSERT_EQ(reduced[i], expected);
    for (int r = 0; r < g.size(); ++r)
      ASSERT_EQ(gathered[static_cast<std::size_t>(r) * count * n + i], static_cast<float>(small_value(r, i)));
  }
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(part[i], reduced[count * static_cast<std::size_t>(g.rank()) + i]);
}

void exercise(ProcessGroup& g) {
  const std::vector<std::int32_t> in(5, g.rank() + 1);
  std::vector<std::int32_t> sum(5);
  g.all_reduce(bytes_of(in), bytes_of(sum), DType::kS32, Reduction::kSum);
  EXPECT_EQ(sum, std::vector<std::int32_t>(5, g.size() * (g.size() + 1) / 2)) << g.name();
  std::vector<std::int32_t> all(5 * static_cast<std::size_t>(g.size()));
  g.all_gather(bytes_of(in), bytes_of(all));
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], static_cast<std::int32_t>(i / 5) + 1) << g.name();
  g.barrier();
}

void split_follows_the_mesh(ProcessGroup& g) {
  const int n = g.size();
  for (const int columns : {1, 2, 3, 4, n}) {
    if (columns > n || n % columns != 0) continue;
    const Mesh mesh({{"a", n / columns}, {"b", columns}});
    for (const char* axis : {"a", "b"}) {
      std::vector<std::vector<int>> groups;
      for (const auto& devices : mesh.groups({mesh.whole_axis(axis)}))
        groups.emplace_back(devices.begin(), devices.end());
      const std::string name = std::string(axis) + " of " + mesh.str();
      const auto sub = g.split(groups, name);
      EXPECT_EQ(sub->name(), name);
      EXPECT_EQ(sub->size(), mesh.axes()[static_cast<std::size_t>(mesh.axis_index(axis))].size);
      EXPECT_EQ(sub->rank(), mesh.coordinate(g.rank(), mesh.whole_axis(axis)));
      EXPECT_EQ(g.split(groups, name), sub) << "a group is made once";
      exercise(*sub);
      if (sub->size() > 1) all_to_all_transposes(*sub);
    }
  }
}

void split_keeps_the_order_given(ProcessGroup& g) {
  std::vector<int> reversed;
  for (int r = g.size() - 1; r >= 0; --r) reversed.push_back(r);
  const auto sub = g.split({reversed}, "reversed");
  EXPECT_EQ(sub->rank(), g.size() - 1 - g.rank());
  std::vector<std::int32_t> in = {g.rank()};
  std::vector<std::int32_t> out(static_cast<std::size_t>(g.size()));
  sub->all_gather(bytes_of(in), bytes_of(out));
  for (int r = 0; r < g.size(); ++r) EXPECT_EQ(out[static_cast<std::size_t>(r)], g.size() - 1 - r);
  exercise(*sub);
}

// Different groups one after the other, without barriers: a staging area must not be reused too early.
void groups_may_alternate(ProcessGroup& g) {
  std::vector<std::vector<int>> even_odd(g.size() > 1 ? 2 : 1);
  for (int r = 0; r < g.size(); ++r) even_odd[static_cast<std::size_t>(r % 2)].push_back(r);
  const auto half = g.split(even_odd, "even and odd");
  for (int round = 0; round < 40; ++round) {
    for (ProcessGroup* group : {&g, half.get()}) {
      const std::vector<std::int32_t> in(4001, round * 100 + group->rank());
      std::vector<std::int32_t> out(in.size() * static_cast<std::size_t>(group->size()));
      group->all_gather(bytes_of(in), bytes_of(out));
      for (std::size_t i = 0; i < out.size(); i += 13)
        ASSERT_EQ(out[i], round * 100 + static_cast<std::int32_t>(i / in.size()))
            << group->name() << " round " << round;
    }
  }
}

void traffic_follows_the_convention(ProcessGroup& g) {
  const std::int64_t n = g.size();
  const auto before = g.traffic();
  const auto rank_before = g.rank_traffic().total();
  const std::vector<float> in(static_cast<std::size_t>(12 * n));  // 48 n bytes
  std::vector<float> same_size(in.size());
  std::vector<float> part(12);
  std::vector<float> all(in.size() * static_cast<std::size_t>(n));
  g.all_gather(bytes_of(in), bytes_of(all));
  g.reduce_scatter(bytes_of(in), bytes_of(part), DType::kF32, Reduction::kSum);
  g.all_reduce(bytes_of(in), bytes_of(same_size), DType::kF32, Reduction::kSum);
  g.all_to_all(bytes_of(in), bytes_of(same_size));
  g.permute(bytes_of(in), bytes_of(same_size), {{0, static_cast<int>(n) - 1}});
  const auto& after = g.traffic();
  EXPECT_EQ(after.all_gather - before.all_gather, 48 * n * (n - 1));
  EXPECT_EQ(after.reduce_scatter - before.reduce_scatter, 48 * (n - 1));
  EXPECT_EQ(after.all_reduce - before.all_reduce, 2 * 48 * (n - 1));
  EXPECT_EQ(after.all_to_all - before.all_to_all, 48 * (n - 1));
  EXPECT_EQ(after.permute - before.permute, g.rank() == n - 1 ? 48 * n : 0);
  EXPECT_EQ(after.calls - before.calls, 5);
  EXPECT_EQ(g.rank_traffic().total() - rank_before, after.total() - before.total());
}

void expect_error(const std::function<void()>& call, const std::string& text) {
  try {
    call();
    ADD_FAILURE() << "no error; expected: " << text;
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what() << "\nexpected: " << text;
  }
}

void wrong_arguments_are_named(ProcessGroup& g) {
  std::vector<std::byte> one(1);
  std::vector<std::byte> many(static_cast<std::size_t>(g.size()) * 4 + 1);
  const std::span<std::byte> whole(many);
  expect_error([&] { g.all_gather(one, many); }, "all_gather over world: out has");
  expect_error([&] { g.reduce_scatter(many, one, DType::kU8, Reduction::kSum); }, "reduce_scatter over world: in has");
  expect_error([&] { g.all_reduce(whole.first(3), whole.first(3), DType::kF32, Reduction::kSum); },
               "3 bytes are no whole number of f32");
  expect_error([&] { g.all_reduce(whole.first(4), whole.first(4), DType::kF32, Reduction::kOr); }, "f32 has no or");
  expect_error([&] { g.broadcast(one, g.size()); }, "is not in a group of");
  expect_error([&] { g.permute(one, one, {{0, 0}, {0, 0}}); }, "member 0 is a source twice");
  expect_error([&] { (void)g.split({{0}, {0}}, "twice"); }, "member 0 is listed twice");
  exercise(g);  // nothing is out of step afterwards
}

}  // namespace

const std::vector<SemanticsCase>& semantics_cases() {
  static const std::vector<SemanticsCase> kCases = {
      {"AllGatherJoinsInRankOrder", all_gather_joins_in_rank_order},
      {"AllGatherWorksInPlace", all_gather_works_in_place},
      {"ReductionsHoldForEveryType", reductions_hold_for_every_type},
      {"LargeReductionsAreRight", large_reductions_are_right},
      {"ReductionsGiveEveryRankTheSameBits", reductions_give_every_rank_the_same_bits},
      {"MinAndMaxKeepNan", min_and_max_keep_nan},
      {"AllToAllTransposes", all_to_all_transposes},
      {"PermuteMovesPairsAndZeroesTheRest", permute_moves_pairs_and_zeroes_the_rest},
      {"BroadcastReachesEverybody", broadcast_reaches_everybody},
      {"NonBlockingFormsGiveTheSame", non_blocking_forms_give_the_same},
      {"SplitFollowsTheMesh", split_follows_the_mesh},
      {"SplitKeepsTheOrderGiven", split_keeps_the_order_given},
      {"GroupsMayAlternate", groups_may_alternate},
      {"TrafficFollowsTheConvention", traffic_follows_the_convention},
      {"WrongArgumentsAreNamed", wrong_arguments_are_named},
  };
  return kCases;
}

}  // namespace tessera::testing
