// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/sharding/meshes.h"

#include <fmt/format.h>

#include <map>
#include <numeric>

#include "execution/execute.h"
#include "tessera/base/listed_nodes.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

std::int64_t devices_in(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

// The ranks of each node.
std::vector<std::vector<std::int64_t>> ranks_by_node(const std::vector<int>& node_of_rank) {
  std::map<int, std::vector<std::int64_t>> ranks;
  for (int rank = 0; rank < isize(node_of_rank); ++rank) ranks[at(node_of_rank, rank)].push_back(rank);
  std::vector<std::vector<std::int64_t>> out;
  for (auto& [node, members] : ranks) out.push_back(std::move(members));
  return out;
}

void check_hybrid(const std::vector<std::int64_t>& within, const std::vector<std::int64_t>& across,
                  const std::vector<std::vector<std::int64_t>>& nodes) {
  require(within.size() == across.size(),
          "HybridMesh: ici_mesh_shape [{}] and dcn_mesh_shape [{}] need one size each for every axis",
          fmt::join(within, ","), fmt::join(across, ","));
  for (const auto* shape : {&within, &across})
    for (const auto size : *shape)
      require(size >= 1, "HybridMesh: the shape [{}] is not valid: each size must be at least 1",
              fmt::join(*shape, ","));
  require(devices_in(across) == isize(nodes),
          "HybridMesh: dcn_mesh_shape [{}] describes {} node(s), but the ranks are on {}", fmt::join(across, ","),
          devices_in(across), nodes.size());
  for (int node = 0; node < isize(nodes); ++node)
    require(devices_in(within) == isize(at(nodes, node)),
            "HybridMesh: ici_mesh_shape [{}] describes {} ranks on each node, but node {} has {}",
            fmt::join(within, ","), devices_in(within), node, at(nodes, node).size());
}

struct HybridLayout {
  std::vector<std::int64_t> devices;
  std::vector<std::int64_t> shape;
};

// Row-major over the axes. The coordinate on an axis is (node part) * size within the node + (part within the node).
HybridLayout hybrid_layout(const HybridMeshOptions& options) {
  const auto nodes = ranks_by_node(options.node_of_rank.empty() ? node_of_ranks() : options.node_of_rank);
  const auto& within = options.ici_mesh_shape;
  auto across = options.dcn_mesh_shape;
  require(!across.empty() || nodes.size() == 1,
          "HybridMesh: the ranks are on {} nodes, so dcn_mesh_shape is needed: the sizes of the axes over nodes",
          nodes.size());
  if (across.empty()) across.assign(within.size(), 1);
  check_hybrid(within, across, nodes);
  HybridLayout out;
  for (int a = 0; a < isize(within); ++a) out.shape.push_back(at(within, a) * at(across, a));
  for (std::int64_t position = 0; position < devices_in(out.shape); ++position) {
    std::int64_t rest = position, node = 0, place = 0, node_stride = 1, place_stride = 1;
    for (int a = isize(within) - 1; a >= 0; --a) {
      const std::int64_t coordinate = rest % at(out.shape, a);
      rest /= at(out.shape, a);
      node += coordinate / at(within, a) * node_stride;
      place += coordinate % at(within, a) * place_stride;
      node_stride *= at(across, a);
      place_stride *= at(within, a);
    }
    out.devices.push_back(at(at(nodes, node), place));
  }
  return out;
}

Mesh hybrid_mesh(const HybridMeshOptions& options) {
  HybridLayout layout = hybrid_layout(options);
  return {layout.devices, layout.shape, options.axis_names};
}

}  // namespace

HybridMesh::HybridMesh(const HybridMeshOptions& options) : Mesh(hybrid_mesh(options)) {}

std::vector<int> node_of_ranks() {
  const JobInfo& job = session().job;
  if (!is_planning()) {
    if (!job.node_of_rank.empty()) return job.node_of_rank;
    if (auto nodes = session().world->nodes(); isize(nodes) == device_count()) return nodes;
  }
  return listed_nodes(static_cast<int>(device_count()));
}

Mesh get_1d_mesh(std::string axis_name) { return Mesh({{std::move(axis_name), device_count()}}); }

void set_global_mesh(const Mesh& mesh) { set_default_mesh(mesh); }
Mesh get_global_mesh() { return default_mesh(); }

}  // namespace tessera
