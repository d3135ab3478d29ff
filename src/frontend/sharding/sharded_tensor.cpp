// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/sharding/sharded_tensor.h"

#include "execution/execute.h"
#include "sharding/sharded_variable.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/sharding/hlo_sharding.h"
#include "tessera/sharding/shard_data.h"

namespace tessera {

Tensor new_tensor(std::shared_ptr<Node> node) {
  auto impl = std::make_shared<TensorImpl>();
  impl->name = node->name;
  impl->node = std::move(node);
  return Tensor(std::move(impl));
}

Tensor sharded_variable(const Type& global, const Sharding& sharding, const Literal& shard) {
  check_sharding(global, sharding);
  auto node = trace().make_node(global);
  node->sharding = sharding;
  const Literal padded = padded_shard(shard, global, sharding, RankContext::current().rank());
  node->shard = DeviceArray::from_literal(padded);
  note_given_shard(*node, padded);
  return new_tensor(std::move(node));
}

Literal ShardedTensor::global(std::source_location where) const { return tensor_.to_host(where); }

std::vector<TensorShard> ShardedTensor::local_shards() const {
  TensorShard shard;
  shard.data = tensor_.local_shard();
  const Sharding own = sharding();
  shard.shard_device = RankContext::current().rank();
  shard.indices = shard_indices(tensor_.type(), own, shard.shard_device);
  shard.replica_id = tessera::replica_id(tensor_.type(), own, shard.shard_device);
  shard.unpadded_data = unpadded_shard(shard.data, tensor_.type(), own, shard.shard_device);
  return {std::move(shard)};
}

void ShardedTensor::load_local_shards(const std::vector<Literal>& shards) {
  require(shards.size() == 1, "load_local_shards: this rank has one device, so it passes one shard, got {}",
          shards.size());
  try {
    const Tensor value = sharded_variable(tensor_.type(), sharding(), shards.front());
    value.impl().node->sharding = tensor_.impl().node->sharding;  // so that assign() takes the shard as it is
    tensor_.assign(value);
  } catch (InternalError&) {
    throw;
  } catch (Error& error) {
    throw error.prefix("load_local_shards: ");
  }
}

Sharding ShardedTensor::sharding() const { return storage_of(*tensor_.impl().node); }
std::string ShardedTensor::sharding_spec() const { return hlo_sharding_text(sharding()); }
ShardingType ShardedTensor::sharding_type() const { return tessera::sharding_type(sharding()); }
Placements ShardedTensor::placements() const { return placements_of(sharding()); }

ShardedTensor ShardedTensor::redistribute(const Mesh& mesh, const Placements& placements,
                                          std::source_location where) const {
  return ShardedTensor(tessera::redistribute(tensor_, mesh, placements, where));
}

std::optional<ShardedTensor> wrap_if_sharded(const Tensor& tensor) {
  const auto sharding = tensor.sharding();
  if (!sharding || sharding->is_replicated()) return std::nullopt;
  return ShardedTensor(tensor);
}

bool ShardingSpec::can_apply(const Type& type) const {
  return type.is_array() && type.ndim() == isize(spec.entries()) && mesh.device_count() == device_count();
}

void ShardingSpec::apply(const Tensor& tensor, std::source_location where) const {
  mark_sharding(tensor, mesh, spec, where);
}

Tensor ShardingSpec::tensor_of(const Literal& value) const {
  if (!minibatch) {
    Tensor out = Tensor::from_host(value);
    apply(out);
    return out;
  }
  const Sharding sharding = Sharding::from_spec(mesh, spec, value.type().ndim());
  Dims dims = value.type().dims();
  for (int d = 0; d < isize(dims); ++d) at(dims, d) *= sharding.tiles(d);
  return sharded_variable(value.type().with_dims(dims), sharding, value);
}

}  // namespace tessera
