// SPDX-License-Identifier: Apache-2.0
// How large the numbers were that results are sums of: sum(x - sort(x)) is 0 up to the roundings of x, not of 0.
#pragma once

#include <vector>

#include "tessera/ir/program.h"
#include "tessera/tensor/literal.h"

namespace tessera {

/// The largest finite magnitude in the array.
double magnitude_of(const Literal& array);

class Magnitudes {
 public:
  explicit Magnitudes(const Program& program);
  /// Takes down a value of the entry; others are ignored.
  void observe(const Computation& computation, Id id, const Literal& value);
  /// The largest of a result's leaf and of the values it is linear in.
  [[nodiscard]] double of_result(int leaf) const;

 private:
  const Program& program_;
  std::vector<double> of_;  // by instruction of the entry
};

}  // namespace tessera
