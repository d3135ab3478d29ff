// SPDX-License-Identifier: Apache-2.0
// What those who use a value ask of it: how it should lie, and whether they take it as partial values.
//
//   %h = dot(%x, %w)      {?,?}     found by propagation
//   ROOT %y = tanh(%h)    {a,-}     required(%h): as found; required(%y): as the computation must end
#pragma once

#include "propagation/op_signatures.h"
#include "tessera/ir/builder.h"

namespace tessera {

/// Of the values of one propagated computation.
class ConsumerShardings {
 public:
  /// `root`: how the results must lie, by leaf; null where they stay as they are found.
  ConsumerShardings(const Program& program, ComputationId id, const std::vector<std::vector<Id>>& users,
                    const Shardings* root, OpSignatures& signatures);

  /// How the results should lie: as propagation found, or as a mark or the end of the computation binds them.
  [[nodiscard]] ShardingRef required(Id id) const;
  /// The computation ends with this, or with a constraint on it: then it is made so, whole where it must be whole, unless a sum is
  /// shared out. A result that the caller binds (FuncResultSharding) is moved there behind the op.
  [[nodiscard]] bool is_unannotated_root(Id id) const;
  /// A partial value is left so when its only user (or all users, being the same mark) can take it.
  [[nodiscard]] bool may_stay_partial(Id id) const;
  /// A mark says how the result must lie, and nothing of what these operands, as they are made, wait to be summed over: summed before
  /// or behind it is the same.
  [[nodiscard]] bool is_reduced_by_constraint(Id id, const std::vector<Value>& operands) const;
  /// All that comes of it is a gradient as it is stored (FSDP's), by ops that add nothing up. What brings it there is asked for by the
  /// mark behind it: the reduction of its partial values, or the reshards of what they are made of where these move less.
  [[nodiscard]] bool is_stored_gradient(Id id) const { return at(is_gradient_, id); }

 private:
  [[nodiscard]] bool is_used_once(Id id, Id by) const;
  [[nodiscard]] bool stays_partial(Id id) const { return !stays_partial_.empty() && at(stays_partial_, id); }

  const Program& program_;
  const Computation& old_;
  const std::vector<std::vector<Id>>& users_;
  const Shardings* root_;
  std::vector<bool> is_gradient_;
  std::vector<bool> stays_partial_;  // of the entry's values: never reduced at all
};

}  // namespace tessera
