// SPDX-License-Identifier: Apache-2.0
// What must run before what (control predecessors), kept when a computation is made anew.
#pragma once

#include <vector>

#include "pipeline/leaves.h"

namespace tessera {

class ControlOrder {
 public:
  explicit ControlOrder(const Computation& old) : old_(old), made_(old.instructions.size()) {}
  /// `made` stands for instruction `old`; values made from `first` on are its own, those before it are handed on.
  void set(Id old, Id first, const Builder& builder, const LeafValues& made);
  /// What stands for an instruction waits for what stands for its predecessors.
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
