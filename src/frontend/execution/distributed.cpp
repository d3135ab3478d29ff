// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/execution/distributed.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "execution/execute.h"
#include "tessera/base/error.h"
#include "tessera/frontend/execution/runtime.h"

namespace tessera::distributed {
namespace {

constexpr std::array<std::string_view, 3> kBackends = {"xla", "mpi", "gloo"};
constexpr std::array<std::string_view, 4> kInitMethods = {"", "pjrt://", "xla://", "env://"};

// The nodes of all ranks. Ranks that are threads are on one node.
std::vector<int> nodes_of_ranks() {
  std::vector<int> nodes = job_info().node_of_rank;
  if (nodes.empty()) nodes.resize(static_cast<std::size_t>(get_world_size()));
  return nodes;
}

void check_ranks(const std::vector<int>& ranks) {
  const int size = get_world_size();
  require(!ranks.empty(), "new_group: the list of ranks is empty");
  for (const int rank : ranks) {
    require(rank >= 0 && rank < size, "new_group([{}]): rank {} does not exist; the job has the ranks 0 to {}",
            fmt::join(ranks, ", "), rank, size - 1);
    require(std::count(ranks.begin(), ranks.end(), rank) == 1, "new_group([{}]): rank {} occurs twice",
            fmt::join(ranks, ", "), rank);
  }
}

}  // namespace

void init_process_group(std::string_view backend, std::string_view init_method) {
  require(std::find(kBackends.begin(), kBackends.end(), backend) != kBackends.end(),
          "init_process_group: there is no backend \"{}\"; xla, mpi and gloo all mean the ranks that mpirun started",
          backend);
  require(std::find(kInitMethods.begin(), kInitMethods.end(), init_method) != kInitMethods.end(),
          "init_process_group: the init method \"{}\" is not known; mpirun gives the addresses of the ranks, so use "
          "pjrt://, xla://, env:// or none",
          init_method);
}

int get_rank() { return joined_world()->rank(); }
int get_world_size() { return joined_world()->size(); }

int get_node_local_rank() {
  const std::vector<int> nodes = nodes_of_ranks();
  const auto mine = nodes.begin() + get_rank();
  return static_cast<int>(std::count(nodes.begin(), mine, *mine));
}

int get_local_world_size() {
  const std::vector<int> nodes = nodes_of_ranks();
  return static_cast<int>(std::count(nodes.begin(), nodes.end(), nodes[static_cast<std::size_t>(get_rank())]));
}

std::shared_ptr<ProcessGroup> new_group(const std::vector<int>& ranks) {
  check_ranks(ranks);
  await_execution();
  // Every rank must be in a group of the division.
  std::vector<std::vector<int>> groups = {ranks};
  std::vector<int> others;
  for (int rank = 0; rank < get_world_size(); ++rank)
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) others.push_back(rank);
  const bool is_member = std::find(others.begin(), others.end(), get_rank()) == others.end();
  if (!others.empty()) groups.push_back(std::move(others));
  auto group = joined_world()->split(groups, fmt::format("ranks {}", fmt::join(ranks, ", ")));
  return is_member ? group : nullptr;
}

void barrier() {
  await_execution();
  joined_world()->barrier({0, "barrier"});
}

}  // namespace tessera::distributed
