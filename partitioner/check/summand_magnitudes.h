// SPDX-License-Identifier: Apache-2.0
// The largest summands of results: sum(x - sort(x)) is 0 up to the rounding of x, not of 0.
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
  /// Records a value of the entry; ignores others.
  void observe(const Computation& computation, Id id, const Literal& value);
  /// The largest magnitude among a result's leaf and the values that it depends on linearly.
  [[nodiscard]] double of_result(int leaf) const;

 private:
  const Program& program_;
  std::vector<double> of_;  // by instruction of the entry
};

}  // namespace tessera
