// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
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

// Adds the elements that differ. Two NaN are equal if their bits are. Returns the number of the element with the largest
// difference so far, if these elements contain it.
template <class T>
std::optional<std::size_t> compare_elements(std::span<const std::byte> a, std::span<const std::byte> b,
                                            TensorDifference& out) {
  std::optional<std::size_t> place;
  for (std::size_t at = 0; at < a.size(); at += sizeof(T)) {
    if (std::memcmp(a.data() + at, b.data() + at, sizeof(T)) == 0) continue;
    ++out.different;
    if constexpr (std::is_arithmetic_v<T> || is_float(kDTypeOf<T>)) {
      T x{};
      T y{};
      std::memcpy(&x, a.data() + at, sizeof(T));
      std::memcpy(&y, b.data() + at, sizeof(T));
      const double difference = std::abs(as_double(x) - as_double(y));
      if (std::isnan(out.largest) || difference <= out.largest) continue;
      out.largest = difference;
      place = at / sizeof(T);
    }
  }
  return place;
}

// The index in the array of element `number` of a region, in row-major order.
Dims index_of(const Region& region, std::size_t number) {
  Dims out;
  auto rest = static_cast<std::int64_t>(number);
  for (auto dim = region.dims.rbegin(); dim != region.dims.rend(); ++dim) {
    out.insert(out.begin(), dim->start + rest % dim->size());
    rest /= dim->size();
  }
  return out;
}

void compare_values(const Type& type, const std::vector<Piece>& a, const std::vector<Piece>& b, TensorDifference& out) {
  for_each_block(complete_region(type), type.dtype(), [&](const Region& block) {
    const auto x = read_region(a, type, block);
    const auto y = read_region(b, type, block);
    if (x == y) return;
    std::optional<std::size_t> place;
    visit_any_dtype(type.dtype(), [&]<class T>() { place = compare_elements<T>(x, y, out); });
    if (place) out.largest_at = index_of(block, *place);
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
    TensorDifference one{.name = name};
    if (x != first.tensors.end()) one.first = x->second.type;
    if (y != second.tensors.end()) one.second = y->second.type;
    const bool comparable = one.first && one.second && *one.first == *one.second;
    if (comparable) compare_values(*one.first, files_of_first.pieces_of(name), files_of_second.pieces_of(name), one);
    if (!comparable || one.different > 0) out.push_back(std::move(one));
  }
  return out;
}

}  // namespace tessera
