// SPDX-License-Identifier: Apache-2.0
// Rematerializes values that are computed from constants, iotas and scalars alone: instead of a reshard, each device
// computes its tile in the other sharding, if that takes few operations.
//
//   %i = s32[8,8] iota(), %j = s32[8,8] iota(), %m = pred[8,8] compare(%i, %j)   by rows, required by columns: 3 ops
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "propagation/op_signatures.h"
#include "tessera/ir/builder.h"
#include "tessera/sharding/machine.h"

namespace tessera {

class Rematerializer {
 public:
  /// For values of the computation of `builder`.
  Rematerializer(Builder& builder, SharedShardings& shardings, const MachineModel& machine)
      : builder_(builder), shardings_(shardings), machine_(machine) {}

  /// `leaf` with the sharding `target`, rematerialized. Nullopt if it depends on other values, if an op would need a
  /// reshard of its operands, or if resharding the result takes less time.
  std::optional<Value> rematerialized(Value leaf, const Sharding& target);

 private:
  struct Step {
    Id source = -1;
    Sharding target;
    std::vector<std::optional<Sharding>> operands;  // nullopt: unchanged
    bool is_copy = false;                           // of a replicated scalar, to another mesh
  };
  struct Plan {
    std::vector<Step> steps;  // operands first
    double operations = 0;
  };

  bool is_computable_everywhere(Id id);
  bool add(Id id, const Sharding& target, Plan& plan);
  bool add_operands(Step& step, Plan& plan);
  [[nodiscard]] Instruction copy_of(Id id) const;
  [[nodiscard]] std::optional<Value> there(Id id, const Sharding& target);

  Builder& builder_;
  SharedShardings& shardings_;
  const MachineModel& machine_;
  std::vector<signed char> follows_;  // by id; -1: not known
  std::map<Id, std::vector<std::pair<Sharding, Value>>> made_;
};

}  // namespace tessera
