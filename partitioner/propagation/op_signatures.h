// SPDX-License-Identifier: Apache-2.0
// Instructions that differ in their names and places only: what was worked out for one of them holds for all, so that the layers of
// a model cost as much as one.
#pragma once

#include <memory>
#include <unordered_map>

#include "pipeline/interner.h"
#include "tessera/ir/op_def.h"

namespace tessera {

/// An op with its attributes, callees and the types of operands and result.
struct OpSignature {
  int id = 0;  // 0, 1, 2, … in the order they are first seen
  OpView view;
  std::shared_ptr<const FactorMap> map;
};

class OpSignatures {
 public:
  /// Of the computations of `program`, which must outlive it.
  explicit OpSignatures(const Program& program) : program_(program) {}
  const OpSignature& of(const Computation& computation, const Instruction& instruction);

 private:
  const Program& program_;
  std::unordered_multimap<std::size_t, OpSignature> signatures_;
};

/// Gives equal shardings one place in memory, by which they are known again.
class SharedShardings {
 public:
  /// The first that was equal.
  const ShardingRef& shared(const ShardingRef& shardings) { return at(all_, id_of(shardings)); }
  const ShardingRef& shared(Sharding sharding) { return shared(make_sharding(std::move(sharding))); }
  /// Its number: 0, 1, 2, … in the order they are first seen.
  int id_of(const ShardingRef& shardings);

 private:
  std::vector<ShardingRef> all_;
  std::unordered_map<const Shardings*, int> by_place_;
  std::unordered_multimap<std::size_t, int> by_hash_;
};

}  // namespace tessera
