// SPDX-License-Identifier: Apache-2.0
// Results are shared between instructions that differ only in names and positions, so that a model with many equal
// layers costs as much as one layer.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <memory>
#include <unordered_map>

#include "pipeline/interner.h"
#include "tessera/ir/op_def.h"

namespace tessera {

/// An op with its attributes, its callees and the types of its operands and result.
struct OpSignature {
  int id = 0;  // 0, 1, 2, … in order of first use
  OpView view;
  std::shared_ptr<const FactorMap> map;
};

class OpSignatures {
 public:
  /// For an instruction of `program`. Equal ops of several programs have one signature if their callees are shared.
  const OpSignature& of(const Program& program, const Computation& computation, const Instruction& instruction);

 private:
  std::unordered_multimap<std::size_t, OpSignature> signatures_;
};

/// Stores equal shardings once, so that they can be compared by address.
class SharedShardings {
 public:
  /// The stored sharding that is equal to the argument.
  const ShardingRef& shared(const ShardingRef& shardings) { return at(all_, id_of(shardings)); }
  const ShardingRef& shared(Sharding sharding) { return shared(make_sharding(std::move(sharding))); }
  /// The stored sharding of a number.
  [[nodiscard]] const ShardingRef& of(int id) const { return at(all_, id); }
  /// The number of a sharding: 0, 1, 2, … in order of first use.
  int id_of(const ShardingRef& shardings);

 private:
  struct Hash {
    using is_avalanching = void;
    std::size_t operator()(const ShardingRef& shardings) const;
  };
  struct Equal {
    bool operator()(const ShardingRef& a, const ShardingRef& b) const { return *a == *b; }
  };
  std::vector<ShardingRef> all_;
  boost::unordered_flat_map<const Shardings*, int> by_place_;
  boost::unordered_flat_map<ShardingRef, int, Hash, Equal> ids_;
};

}  // namespace tessera
