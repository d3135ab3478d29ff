// SPDX-License-Identifier: Apache-2.0
// Seeded choices, and random windows.
#pragma once

#include <algorithm>
#include <vector>

#include "tessera/base/text.h"
#include "tessera/ops/windows.h"

namespace tessera::testing {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : seed_(seed) {}
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(hash_mix(seed_, ++count_) %
                                     static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1)));
  }
  bool one_in(int n) { return below(n) == 0; }
  template <class T>
  const T& pick(const std::vector<T>& items) {
    return at(items, below(isize(items)));
  }

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

/// Returns a window with padding on both sides, which may be negative, with strides, and with dilations on request.
inline WindowDim random_window(Dice& dice, std::int64_t size, bool dilates) {
  WindowDim w{.size = size, .stride = 1 + dice.below(3), .low = dice.below(4) - 1, .high = dice.below(4) - 1};
  if (dilates && dice.one_in(2)) w.base_dilation = 1 + dice.below(3);
  if (dilates && dice.one_in(2)) w.dilation = 1 + dice.below(2);
  return w;
}

/// Returns all dims in random order.
inline ConvolutionLabels random_labels(Dice& dice, int ndim) {
  const auto order = [&] {
    Dims out;
    for (int d = 0; d < ndim; ++d) out.insert(out.begin() + dice.below(isize(out) + 1), d);
    return out;
  };
  const Dims l = order();
  const Dims r = order();
  const Dims o = order();
  return {l[0], l[1], {l.begin() + 2, l.end()}, r[0], r[1], {r.begin() + 2, r.end()},
          o[0], o[1], {o.begin() + 2, o.end()}};
}

}  // namespace tessera::testing
