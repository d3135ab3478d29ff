// SPDX-License-Identifier: Apache-2.0
// Annotations: the sharding of a tensor over the devices of a mesh.
//
//   mark_sharding(weight, mesh, {{}, "model"});      columns over `model`
//   mark_sharding(batch, mesh, {"data", {}});        rows over `data`
//   mark_sharding(hidden, mesh, {kUnconstrained, "model"});    columns over `model`, rows from propagation
#pragma once

#include <iostream>
#include <string>
#include <utility>

#include "tessera/frontend/tensor/tensor.h"
#include "tessera/sharding/visualize.h"

namespace tessera {

/// Shards a tensor. For a variable or input this sets the sharding of its storage. For a computed tensor it is a
/// constraint at this place, and the handle then refers to the constrained value. Errors: the size of the mesh is not
/// the number of devices; the spec does not have one entry for each dim; an axis is unknown or used twice; the tensor
/// already has another sharding (call clear_sharding first). Returns the tensor.
Tensor mark_sharding(Tensor tensor, const Mesh& mesh, const PartitionSpec& spec,
                     std::source_location where = std::source_location::current());
/// Returns the same value with this sharding. The sharding of `tensor` does not change.
[[nodiscard]] Tensor with_sharding_constraint(const Tensor& tensor, const Mesh& mesh, const PartitionSpec& spec,
                                              std::source_location where = std::source_location::current());
/// Returns the same value with this sharding, and also constrains its gradient.
[[nodiscard]] Tensor mark_sharding_with_gradients(const Tensor& tensor, const Mesh& mesh, const PartitionSpec& spec,
                                                  std::source_location where = std::source_location::current());
/// Sets the sharding of a tensor, like mark_sharding(), but also if the tensor already has another sharding. The mesh
/// may be another one over the same devices. The handle then refers to the constrained value, and the next step
/// reshards the data.
void annotate_custom_sharding(Tensor tensor, const Mesh& mesh, const PartitionSpec& spec,
                              std::source_location where = std::source_location::current());
/// Returns both values unchanged. Propagation chooses one sharding for both. Error if their dims differ.
[[nodiscard]] std::pair<Tensor, Tensor> shard_as(const Tensor& a, const Tensor& b,
                                                 std::source_location where = std::source_location::current());
/// Stores a variable as shards, without communication, if every rank has its complete value in memory. Returns false,
/// and does nothing, if the variable has no value yet or is sharded already.
bool shard_complete_value(const Tensor& variable, const Sharding& sharding);
/// Removes the sharding. The tensor is fully replicated again (resharded at its next use).
void clear_sharding(Tensor tensor);

/// Draws the sharding of a tensor, as visualize_sharding() of its type and sharding.
std::string visualize_sharding(const Tensor& tensor, const VisualizeOptions& options = {});
/// Prints this picture below a line with the type and the sharding. It is coloured if `out` is std::cout and is a
/// terminal.
void visualize_tensor_sharding(const Tensor& tensor, VisualizeOptions options = {}, std::ostream& out = std::cout);

}  // namespace tessera
