// SPDX-License-Identifier: Apache-2.0
// A tensor seen as its shards, as PyTorch/XLA's XLAShardedTensor.
//
//   ShardedTensor view(weight);
//   for (const TensorShard& shard : view.local_shards()) save(shard.indices, shard.unpadded_data);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/frontend/sharding/placements.h"
#include "tessera/sharding/placement.h"
#include "tessera/sharding/sharding_type.h"

namespace tessera {

/// The elements of a tensor that one device holds.
struct TensorShard {
  Literal data;                   // of the type of a shard, with padding at the end of dims that do not divide
  std::vector<Interval> indices;  // of each dim, in the global tensor
  std::int64_t shard_device = 0;
  std::int64_t replica_id = 0;  // the index among the devices that hold the same elements
  Literal unpadded_data;        // the elements that `indices` name
};

/// A view of a tensor; copies of it and of the tensor refer to the same variable.
class ShardedTensor {
 public:
  explicit ShardedTensor(Tensor tensor) : tensor_(std::move(tensor)) {}

  [[nodiscard]] const Tensor& global_tensor() const { return tensor_; }
  /// Returns the complete value. Collective unless the tensor is in memory and fully replicated.
  [[nodiscard]] Literal global(std::source_location where = std::source_location::current()) const;
  /// Returns the shards of this rank's devices: one, because a rank is a device. No communication. Error if the value
  /// has not been computed yet.
  [[nodiscard]] std::vector<TensorShard> local_shards() const;
  /// Replaces the value of the variable: every rank passes its shards, with or without padding, in the order of
  /// local_shards(). The sharding does not change. Error: another number of shards, or other dims.
  void load_local_shards(const std::vector<Literal>& shards);

  /// The sharding; fully replicated if the tensor has none.
  [[nodiscard]] Sharding sharding() const;
  [[nodiscard]] const Mesh mesh() const { return sharding().mesh; }
  /// HLO's text of the sharding: `{devices=[2,1,3]<=[6] last_tile_dim_replicate}`.
  [[nodiscard]] std::string sharding_spec() const;
  [[nodiscard]] ShardingType sharding_type() const;
  [[nodiscard]] Placements placements() const;

  /// The same value in another sharding. Differentiable.
  [[nodiscard]] ShardedTensor redistribute(const Mesh& mesh, const Placements& placements,
                                           std::source_location where = std::source_location::current()) const;

 private:
  Tensor tensor_;
};

/// Returns a view of the tensor; nullopt unless it is sharded over more than one device.
std::optional<ShardedTensor> wrap_if_sharded(const Tensor& tensor);

/// How a loader shards a batch.
struct ShardingSpec {
  Mesh mesh;
  PartitionSpec spec;
  bool minibatch = false;  // each rank passes only its part of the batch

  /// True if the spec has one entry for each dim and the mesh has device_count() devices.
  [[nodiscard]] bool can_apply(const Type& type) const;
  /// Shards a tensor, as mark_sharding().
  void apply(const Tensor& tensor, std::source_location where = std::source_location::current()) const;
  /// Makes a tensor from the complete batch, or with `minibatch` from this rank's part of it. All parts have the same
  /// dims.
  [[nodiscard]] Tensor tensor_of(const Literal& value) const;
};

}  // namespace tessera
