// SPDX-License-Identifier: Apache-2.0
#include "collectives/semantics.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tessera/base/error.h"

namespace tessera::testing {
namespace {

// 0 bytes, odd sizes, sizes smaller than the number of ranks, and three chunks of a staging area.
std::vector<std::size_t> sizes(const ProcessGroup& g) {
  std::vector<std::size_t> out = {0, 1, 3, 7, 64, 1009, 20011};
  if (uses_large_payloads && g.size() <= 4) out.push_back(2500003);
  return out;
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
      for (const auto& devices : mesh.groups({mesh.full_axis(axis)}))
        groups.emplace_back(devices.begin(), devices.end());
      const std::string name = std::string(axis) + " of " + mesh.str();
      const auto sub = g.split(groups, name);
      EXPECT_EQ(sub->name(), name);
      EXPECT_EQ(sub->size(), mesh.axes()[static_cast<std::size_t>(mesh.axis_index(axis))].size);
      EXPECT_EQ(sub->rank(), mesh.coordinate(g.rank(), mesh.full_axis(axis)));
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

// Alternates between groups without barriers: a staging area must not be reused too early.
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
  const std::span<std::byte> buffer(many);
  expect_error([&] { g.all_gather(one, many); }, "all_gather over world: out has");
  expect_error([&] { g.reduce_scatter(many, one, DType::kU8, Reduction::kSum); }, "reduce_scatter over world: in has");
  expect_error([&] { g.all_reduce(buffer.first(3), buffer.first(3), DType::kF32, Reduction::kSum); },
               "3 bytes is not a multiple of the size of f32");
  expect_error([&] { g.all_reduce(buffer.first(4), buffer.first(4), DType::kF32, Reduction::kOr); }, "f32 has no or");
  expect_error([&] { g.broadcast(one, g.size()); }, "is not in a group of");
  expect_error([&] { g.permute(one, one, {{0, 0}, {0, 0}}); }, "member 0 is a source twice");
  expect_error([&] { (void)g.split({{0}, {0}}, "twice"); }, "member 0 is listed twice");
  exercise(g);  // the ranks still agree afterwards
}

}  // namespace

const std::vector<SemanticsCase>& semantics_cases() {
  static const std::vector<SemanticsCase> kCases = [] {
    std::vector<SemanticsCase> cases = {
        {"AllGatherJoinsInRankOrder", all_gather_joins_in_rank_order},
        {"AllGatherWorksInPlace", all_gather_works_in_place},
        {"AllToAllTransposes", all_to_all_transposes},
        {"PermuteMovesPairsAndZeroesTheRest", permute_moves_pairs_and_zeroes_the_rest},
        {"BroadcastReachesEverybody", broadcast_reaches_everybody},
        {"SplitFollowsTheMesh", split_follows_the_mesh},
        {"SplitKeepsTheOrderGiven", split_keeps_the_order_given},
        {"GroupsMayAlternate", groups_may_alternate},
        {"TrafficFollowsTheConvention", traffic_follows_the_convention},
        {"WrongArgumentsAreNamed", wrong_arguments_are_named},
    };
    for (auto& reduction : reduction_cases()) cases.push_back(std::move(reduction));
    return cases;
  }();
  return kCases;
}

}  // namespace tessera::testing
