// SPDX-License-Identifier: Apache-2.0
// The requirements of a value's consumers: the sharding that they expect, and whether they accept partial values.
//
//   %h = dot(%x, %w)      {?,?}     found by propagation
//   ROOT %y = tanh(%h)    {a,-}     required(%h): as found; required(%y): the sharding of the computation's result
#pragma once

#include "propagation/op_signatures.h"
#include "tessera/ir/builder.h"

namespace tessera {

/// For the values of one propagated computation.
class ConsumerShardings {
 public:
  /// `root`: the required shardings of the results, by leaf; null if the results keep the shardings they have.
  ConsumerShardings(const Program& program, ComputationId id, const std::vector<std::vector<Id>>& users,
                    const Shardings* root, OpSignatures& signatures);

  /// The required sharding of the results: that of an annotation or of the computation's result, else the one that
  /// propagation found.
  [[nodiscard]] ShardingRef required(Id id) const;
  /// Whether this is the root of the computation, or its root is a constraint on this value. The op then computes the
  /// root's sharding directly, unless a sum can be sharded. A result that the caller binds (FuncResultSharding) is
  /// resharded after the op.
  [[nodiscard]] bool is_unannotated_root(Id id) const;
  /// Whether a partial value may stay partial: its only consumer (or all consumers, if these are equal annotations)
  /// accepts it.
  [[nodiscard]] bool may_stay_partial(Id id) const;
  /// An annotation determines the sharding of the result and uses none of the axes over which these operands are
  /// partial. Then it does not matter whether the sum is before or after it.
  [[nodiscard]] bool is_reduced_by_constraint(Id id, const std::vector<Value>& operands) const;
  /// Whether the only use of the value is a stored gradient (of FSDP), through ops that sum nothing. The annotation
  /// after these ops then requests the reshard: the reduction of the value, or of its operands if that moves less.
  [[nodiscard]] bool is_stored_gradient(Id id) const { return at(is_gradient_, id); }

 private:
  [[nodiscard]] bool is_used_once(Id id, Id by) const;
  [[nodiscard]] bool stays_partial(Id id) const { return !stays_partial_.empty() && at(stays_partial_, id); }

  const Program& program_;
  const Computation& old_;
  const std::vector<std::vector<Id>>& users_;
  const Shardings* root_;
  std::vector<bool> is_gradient_;
  std::vector<bool> stays_partial_;  // of the entry's values: never reduced
};

}  // namespace tessera
