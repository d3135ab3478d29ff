// SPDX-License-Identifier: Apache-2.0
// Where a device stands while its program is written, and what of its shards is only padding.
//
//   mesh a=2,b=3, along b:   %c = remainder(partition-id, 3)     once in a computation, whoever asks
#pragma once

#include "tessera/ir/localize_context.h"

namespace tessera {

/// The coordinates that a computation under construction has asked for.
class Coordinates {
 public:
  explicit Coordinates(Builder& builder) : builder_(builder) {}
  /// Programs name several meshes; the same axes may order devices otherwise in each.
  Value of(const Mesh& mesh, const std::vector<AxisRef>& axes);
  /// Where this device's shard of a dim of `size` elements begins.
  Value shard_start(const Sharding& sharding, int dim, std::int64_t size);

 private:
  struct Known {
    Mesh mesh;
    std::vector<AxisRef> axes;
    Value value;
  };
  Builder& builder_;
  std::vector<Known> known_;
};

/// Replaces padding of the operands' unevenly sharded dims that are reduced by the reduction's identity (NaN * 0 is NaN: in all operands).
void mask_reduced_padding(const FactorMap& map, LocalizeContext& context);

}  // namespace tessera
