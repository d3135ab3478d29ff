// SPDX-License-Identifier: Apache-2.0
// Annotations: the sharding of a tensor over the devices of a mesh.
//
//   mark_sharding(weight, mesh, {{}, "model"});      columns over `model`
//   mark_sharding(batch, mesh, {"data", {}});        rows over `data`
//   mark_sharding(hidden, mesh, {kUnconstrained, "model"});    columns over `model`, rows from propagation
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

/// Shards a tensor. For a variable or input this sets the sharding of its storage. For a computed tensor it is a
/// constraint at this place, and the handle then refers to the constrained value. Errors: the size of the mesh is not
/// the number of devices; the spec does not have one entry for each dim; an axis is unknown or used twice; the tensor
/// already has another sharding (call clear_sharding first).
void mark_sharding(Tensor tensor, const Mesh& mesh, const PartitionSpec& spec,
                   std::source_location where = std::source_location::current());
/// Returns the same value with this sharding. `tensor` keeps its own.
[[nodiscard]] Tensor with_sharding_constraint(const Tensor& tensor, const Mesh& mesh, const PartitionSpec& spec,
                                              std::source_location where = std::source_location::current());
/// Returns the same value with this sharding, and also constrains its gradient.
[[nodiscard]] Tensor mark_sharding_with_gradients(const Tensor& tensor, const Mesh& mesh, const PartitionSpec& spec,
                                                  std::source_location where = std::source_location::current());
/// Gives a tensor another sharding, also if it has one already, perhaps on another mesh of the same devices. The handle
/// refers to the constrained value; the data moves in the next step. For re-meshing; mark_sharding() is the usual call.
void annotate_custom_sharding(Tensor tensor, const Mesh& mesh, const PartitionSpec& spec,
                              std::source_location where = std::source_location::current());
/// Returns the same values. Propagation gives both the same sharding, whichever that is. Error: the dims differ.
[[nodiscard]] std::pair<Tensor, Tensor> shard_as(const Tensor& a, const Tensor& b,
                                                 std::source_location where = std::source_location::current());
/// Removes the sharding. The tensor is fully replicated again (resharded at its next use).
void clear_sharding(Tensor tensor);

struct VisualizeOptions {
  bool color = false;
  int cell_width = 12;
  int cell_height = 3;
};
/// Draws for a terminal which devices hold which tile, for up to 3 dims. Each tile is a Unicode box with the numbers
/// of its devices; for three dims there is one picture for each tile of the first dim. Errors: more dims; a sharding
/// that is not a tiling.
std::string visualize_sharding(const Type& type, const Sharding& sharding, const VisualizeOptions& options = {});
std::string visualize_sharding(const Tensor& tensor, const VisualizeOptions& options = {});
/// The same as an SVG file. A tile has the colour of its first device and shows its devices and the interval of each
/// dim.
std::string sharding_svg(const Type& type, const Sharding& sharding);

}  // namespace tessera
