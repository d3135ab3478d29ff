// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "blocks.h"
#include "files/manifest.h"
#include "tessera/base/error.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/tensor/literal.h"

namespace tessera {
namespace {

template <class T>
double as_double(T x) {
  if constexpr (std::is_same_v<T, double>)
    return x;
  else
    return static_cast<double>(static_cast<float>(x));
}

// Adds the elements that differ. Two NaN are equal if their bits are.
template <class T>
void compare_elements(std::span<const std::byte> a, std::span<const std::byte> b, TensorDifference& out) {
  for (std::size_t at = 0; at < a.size(); at += sizeof(T)) {
    if (std::memcmp(a.data() + at, b.data() + at, sizeof(T)) == 0) continue;
    ++out.different;
    if constexpr (std::is_arithmetic_v<T> || is_float(kDTypeOf<T>)) {
      T x{};
      T y{};
      std::memcpy(&x, a.data() + at, sizeof(T));
      std::memcpy(&y, b.data() + at, sizeof(T));
      const double difference = std::abs(as_double(x) - as_double(y));
      out.largest = std::isnan(difference) ? difference : std::max(out.largest, difference);
    }
  }
}

void compare_values(const Type& type, const std::vector<Piece>& a, const std::vector<Piece>& b, TensorDifference& out) {
  for_each_block(complete_region(type), type.dtype(), [&](const Region& block) {
    const auto x = read_region(a, type, block);
    const auto y = read_region(b, type, block);
    if (x == y) return;
    visit_any_dtype(type.dtype(), [&]<class T>() { compare_elements<T>(x, y, out); });
  });
}

}  // namespace

std::vector<TensorDifference> differences_of(const Checkpoint& a, const Checkpoint& b) {
  const CheckpointManifest& first = *a.manifest();
  const CheckpointManifest& second = *b.manifest();
  std::set<std::string> names;
  for (const CheckpointManifest* one : {&first, &second})
    for (const auto& [name, tensor] : one->tensors) names.insert(name);
  PieceFiles files_of_first(a.manifest());
  PieceFiles files_of_second(b.manifest());
  std::vector<TensorDifference> out;
  for (const std::string& name : names) {
    const auto x = first.tensors.find(name);
    const auto y = second.tensors.find(name);
    TensorDifference one{name, std::nullopt, std::nullopt, 0, 0};
    if (x != first.tensors.end()) one.first = x->second.type;
    if (y != second.tensors.end()) one.second = y->second.type;
    const bool comparable = one.first && one.second && *one.first == *one.second;
    if (comparable) compare_values(*one.first, files_of_first.pieces_of(name), files_of_second.pieces_of(name), one);
    if (!comparable || one.different > 0) out.push_back(std::move(one));
  }
  return out;
}

}  // namespace tessera
