// SPDX-License-Identifier: Apache-2.0
// Keeps control predecessors when a computation is rewritten.
#pragma once

#include <vector>

#include "pipeline/leaves.h"

namespace tessera {

class ControlOrder {
 public:
  explicit ControlOrder(const Computation& old) : old_(old), made_(old.instructions.size()) {}
  /// Records that `made` replaces instruction `old`. Values from id `first` on were created for it; earlier ones are
  /// only reused.
  void set(Id old, Id first, const Builder& builder, const LeafValues& made);
  /// Adds control edges to the replacements of an instruction from those of its predecessors.
  void keep(Computation& made) const;

 private:
  struct Made {
    Id first = 0;
    std::vector<Id> ids;
  };
  const Computation& old_;
  std::vector<Made> made_;  // by old instruction
};

}  // namespace tessera
