// SPDX-License-Identifier: Apache-2.0
// Sums in the order that docs/internals/collectives.md documents. The values are chosen so that every other order gives
// another result.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "tessera/base/text.h"

namespace tessera::testing {

// Returns values of very different magnitudes, so that every order of additions gives other bits.
inline float addend(int rank, std::size_t i) {
  constexpr float kScales[] = {1.0F, 10.0F, 100.0F, 1000.0F, 10000.0F};
  const auto mixed = static_cast<std::uint32_t>(i * 2654435761U + static_cast<std::size_t>(rank) * 40503U * 65537U);
  return static_cast<float>(static_cast<std::int32_t>(mixed ^ (mixed >> 13U))) / 2147483648.0F *
         kScales[(static_cast<std::size_t>(rank) + i) % 5];
}

template <class T>
std::vector<T> addends(int rank, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = T(addend(rank, i));
  return values;
}

// Adds up the members of each node, then the nodes in the order of their first members. 16-bit types are rounded once
// per step. If a node has one member, or nodes have different numbers of members, the members are added up in rank
// order.
template <class T>
T documented_sum(const std::vector<int>& nodes, std::size_t i) {
  std::map<int, std::vector<int>> members;
  for (int rank = 0; rank < isize(nodes); ++rank) members[at(nodes, rank)].push_back(rank);
  const std::size_t places = members.begin()->second.size();
  const bool even = std::all_of(members.begin(), members.end(), [&](auto& row) { return row.second.size() == places; });
  if (!even || places == 1) {
    float sum = static_cast<float>(T(addend(0, i)));
    for (int rank = 1; rank < isize(nodes); ++rank) sum += static_cast<float>(T(addend(rank, i)));
    return T(sum);
  }
  float sum = 0;
  for (const auto& [node, row] : members) {
    float inside = static_cast<float>(T(addend(row[0], i)));
    for (std::size_t k = 1; k < row.size(); ++k) inside += static_cast<float>(T(addend(row[k], i)));
    const auto rounded = static_cast<float>(T(inside));
    sum = node == members.begin()->first ? rounded : sum + rounded;
  }
  return T(sum);
}

// Compares bit by bit.
template <class T>
bool alike(const std::vector<T>& a, const std::vector<T>& b) {
  return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}
template <class T>
bool same_bits(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

}  // namespace tessera::testing
