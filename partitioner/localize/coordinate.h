// SPDX-License-Identifier: Apache-2.0
// The position of a device in the mesh, as a value of its program, and masks of padding, which use it.
//
//   mesh a=2,b=3, along b:   %c = remainder(partition-id, 3)     computed once per computation
#pragma once

#include "tessera/ir/localize_context.h"

namespace tessera {

/// Emits coordinates into a computation under construction, each once.
class Coordinates {
 public:
  explicit Coordinates(Builder& builder) : builder_(builder) {}
  /// The coordinate of this device over the axes, as an s32 scalar. It depends on the mesh, because a program may have
  /// several meshes, which may order devices differently.
  Value of(const Mesh& mesh, const std::vector<AxisRef>& axes);
  /// The start of this device's shard of a dim of `size` elements.
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

/// Replaces the padding of unevenly sharded dims that are reduced by the identity of the reduction. It masks all
/// operands, because NaN * 0 is NaN.
void mask_reduced_padding(const FactorMap& map, LocalizeContext& context);

}  // namespace tessera
