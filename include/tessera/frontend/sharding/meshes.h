// SPDX-License-Identifier: Apache-2.0
// The meshes of a job: the global mesh, and meshes that follow the nodes on which the ranks run.
//
//   HybridMesh mesh({.ici_mesh_shape = {1, 4}, .dcn_mesh_shape = {2, 1}, .axis_names = {"data", "model"}});
//                                                 2 nodes of 4 ranks: `model` stays within a node
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/sharding/mesh.h"

namespace tessera {

struct HybridMeshOptions {
  std::vector<std::int64_t> ici_mesh_shape;    // the axes within a node (PyTorch/XLA: the fast network of a slice)
  std::vector<std::int64_t> dcn_mesh_shape{};  // the axes over nodes; empty: one node
  std::vector<std::string> axis_names{};
  std::vector<int> node_of_rank{};  // empty: as node_of_ranks()
};

/// A mesh whose axes consist of a major part over nodes and a minor part within a node. The size of an axis is the
/// product of both. Errors: the shapes have different lengths; the product of dcn_mesh_shape is not the number of
/// nodes; the product of ici_mesh_shape is not the number of ranks of each node; the errors of Mesh.
class HybridMesh : public Mesh {
 public:
  explicit HybridMesh(const HybridMeshOptions& options);
};

/// The node of each rank of the job. With plan_for_devices() or virtual ranks, the nodes that TESSERA_NODE lists.
std::vector<int> node_of_ranks();

/// All devices along one axis.
Mesh get_1d_mesh(std::string axis_name = "data");

/// set_default_mesh() and default_mesh() under PyTorch/XLA's names. FSDP and loaders use this mesh unless they get
/// another one. If it was not set, it is the mesh of the first mark_sharding(), or else one axis `data`. Error unless
/// the size of `mesh` is device_count().
void set_global_mesh(const Mesh& mesh);
Mesh get_global_mesh();

}  // namespace tessera
