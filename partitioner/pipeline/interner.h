// SPDX-License-Identifier: Apache-2.0
// Assigns small numbers to equal objects, so that results for one layer of a model can be reused for the next.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <vector>

#include "tessera/base/text.h"

namespace tessera {

/// Maps equal values (of a T with hash()) to equal numbers: 0, 1, 2, … in order of first use.
template <class T>
class Interner {
 public:
  int id_of(const T& value) { return ids_.try_emplace(value, isize(ids_)).first->second; }

 private:
  struct Hash {
    std::size_t operator()(const T& value) const { return value.hash(); }
  };
  boost::unordered_flat_map<T, int, Hash> ids_;
};

struct HashIds {
  using is_avalanching = void;  // for Boost: the bits are mixed already
  std::size_t operator()(const std::vector<int>& ids) const {
    std::size_t seed = ids.size();
    for (const int id : ids) seed = hash_mix(seed, static_cast<std::size_t>(id));
    return seed;
  }
};
/// Values by a list of numbers. A reference to a value is valid until the next insertion.
template <class V>
using ByIds = boost::unordered_flat_map<std::vector<int>, V, HashIds>;

}  // namespace tessera
