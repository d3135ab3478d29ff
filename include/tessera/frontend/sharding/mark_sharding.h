// SPDX-License-Identifier: Apache-2.0
// Annotations: how a tensor lies over the devices of a mesh.
//
//   mark_sharding(weight, mesh, {{}, "model"});      columns over `model`
//   mark_sharding(batch, mesh, {"data", {}});        rows over `data`
//   mark_sharding(hidden, mesh, {kUnconstrained, "model"});    columns over `model`, rows as propagation finds
#pragma once

#include <string>
#include <string_view>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

/// On a variable or input: its storage from now on. On a computed tensor: a constraint at this place; the handle then stands for the
/// constrained value. Errors: a mesh whose size is not the number of devices, a spec that has not one entry per dim, an unknown axis,
/// an axis twice, a tensor already sharded otherwise (clear_sharding first).
void mark_sharding(Tensor tensor, const Mesh& mesh, const PartitionSpec& spec,
                   std::source_location where = std::source_location::current());
/// The same value with the sharding; `tensor` keeps its own.
[[nodiscard]] Tensor with_sharding_constraint(const Tensor& tensor, const Mesh& mesh, const PartitionSpec& spec,
                                              std::source_location where = std::source_location::current());
/// The same value with the sharding, which also binds the gradient that comes back.
[[nodiscard]] Tensor mark_sharding_with_gradients(const Tensor& tensor, const Mesh& mesh, const PartitionSpec& spec,
                                                  std::source_location where = std::source_location::current());
/// Forgets the sharding; the tensor is whole on every device again (moved when it is next used).
void clear_sharding(Tensor tensor);

struct VisualizeOptions {
  bool color = false;
  int cell_width = 12;
  int cell_height = 3;
};
/// A picture for a terminal of which devices hold which part; tensors of up to 3 dims (a Unicode box per part, numbered by device; of
/// three dims one picture for each part of the first). Error for more dims and for what is no tiling.
std::string visualize_sharding(const Type& type, const Sharding& sharding, const VisualizeOptions& options = {});
std::string visualize_sharding(const Tensor& tensor, const VisualizeOptions& options = {});
/// The same as an SVG file: parts in the colour of their first device, with the devices and the interval of each dim.
std::string sharding_svg(const Type& type, const Sharding& sharding);

}  // namespace tessera
