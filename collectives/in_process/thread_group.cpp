// SPDX-License-Identifier: Apache-2.0
#include "in_process/thread_group.h"

#include "copy_bytes.h"
#include "hierarchical.h"
#include "reduce.h"
#include "tessera/base/options.h"
#include "tessera/base/text.h"

namespace tessera::collectives {
namespace {

// The first byte of slice k, if `bytes` are divided into `parts` slices of complete elements.
std::size_t slice_begin(std::size_t bytes, std::size_t element, std::size_t parts, std::size_t k) {
  return bytes / element * k / parts * element;
}

// The bytes that a rank would receive in an implementation over a network.
std::int64_t received_bytes(const Collective& call, int size, int rank) {
  const auto in = static_cast<std::int64_t>(call.in.size());
  switch (call.kind) {
    case Kind::kAllGather: return in * (size - 1);
    case Kind::kReduceScatter:
    case Kind::kAllToAll: return in / size * (size - 1);
    case Kind::kAllReduce: return 2 * in * (size - 1) / size;
    case Kind::kPermute:
      for (const auto& [source, target] : call.pairs)
        if (target == rank && source != rank) return in;
      return 0;
    case Kind::kBroadcast: return rank == call.root ? 0 : in;
    case Kind::kBarrier:
    case Kind::kSplit: break;
  }
  return 0;
}

}  // namespace

ThreadGroup::ThreadGroup(std::shared_ptr<Fabric> fabric, std::shared_ptr<Cluster> cluster, Membership membership,
                         const std::string& flavour, bool crosses_nodes)
    : GroupBase(std::move(fabric), std::move(membership)),
      cluster_(std::move(cluster)),
      place_(cluster_->meeting(members().id, flavour, members().world_ranks)),
      crosses_nodes_(crosses_nodes) {}

void ThreadGroup::run(const Collective& call) {
  cluster_->meet(*place_, rank(), call);
  if (call.kind == Kind::kBarrier) return;
  move(call);
  cluster_->meet_again(*place_, rank());
  if (crosses_nodes_) count_mpi(received_bytes(call, size(), rank()));
}

void ThreadGroup::move(const Collective& call) {
  switch (call.kind) {
    case Kind::kAllGather:
    case Kind::kSplit: return gather(call);
    case Kind::kReduceScatter: {
      const auto begin = call.part_begin(static_cast<std::size_t>(rank()), call.out.size());
      return reduce_part(call, begin, begin + call.out.size(), call.out.data());
    }
    case Kind::kAllReduce: return all_reduce(call);
    case Kind::kAllToAll: return exchange(call);
    case Kind::kPermute: return permute(call);
    case Kind::kBroadcast: return copy_bytes(call.out.data(), at(place_->posts, call.root).in, call.out.size());
    case Kind::kBarrier: return;
  }
}

void ThreadGroup::gather(const Collective& call) const {
  for (std::size_t k = 0; k < place_->posts.size(); ++k)
    copy_bytes(call.out.data() + call.part_begin(k, call.in.size()), place_->posts[k].in, call.in.size());
}

void ThreadGroup::reduce_part(const Collective& call, std::size_t begin, std::size_t end, std::byte* out) const {
  std::vector<const std::byte*> sources;
  for (const auto& post : place_->posts) sources.push_back(post.in + begin);
  reduce_ordered(members().summands(sources), out, end - begin, call.dtype, call.reduction);
}

// Member k reduces slice k, then all members copy the slices. Only member k reads slice k of every `in`, so `in` may be
// `out`.
void ThreadGroup::all_reduce(const Collective& call) {
  const auto element = static_cast<std::size_t>(dtype_size(call.dtype));
  const auto parts = place_->posts.size();
  const auto begin = [&](std::size_t k) { return slice_begin(call.out.size(), element, parts, k); };
  const auto own = static_cast<std::size_t>(rank());
  reduce_part(call, begin(own), begin(own + 1), call.out.data() + begin(own));
  cluster_->meet_again(*place_, rank());
  for (std::size_t k = 0; k < parts; ++k)
    copy_bytes(call.out.data() + begin(k), place_->posts[k].out + begin(k), begin(k + 1) - begin(k));
}

void ThreadGroup::exchange(const Collective& call) const {
  const std::size_t part = call.in.size() / place_->posts.size();
  const auto own = static_cast<std::size_t>(rank());
  for (std::size_t k = 0; k < place_->posts.size(); ++k)
    copy_bytes(call.out.data() + k * part, place_->posts[k].in + own * part, part);
}

void ThreadGroup::permute(const Collective& call) const {
  for (const auto& [source, target] : call.pairs)
    if (target == rank()) return copy_bytes(call.out.data(), at(place_->posts, source).in, call.out.size());
  if (!call.out.empty()) std::memset(call.out.data(), 0, call.out.size());
}

std::vector<int> ThreadFabric::nodes_of(const std::vector<int>& world_ranks) const {
  std::vector<int> nodes;
  if (options().text("TESSERA_SHARED_MEMORY") != "1") return nodes;
  for (const int rank : world_ranks) nodes.push_back(cluster_->node_of(rank));
  return nodes;
}

NodeLinks ThreadFabric::links() {
  if (!links_) links_ = given_node_links().value_or(NodeLinks{});
  return *links_;
}

std::shared_ptr<ProcessGroup> ThreadFabric::make_group(const std::vector<int>& world_ranks, const std::string& name,
                                                       std::int64_t id) {
  std::vector<int> nodes;
  for (const int rank : world_ranks) nodes.push_back(cluster_->node_of(rank));
  const auto make = [&](const std::vector<int>& ranks, const std::string& flavour, bool counted) {
    return std::make_shared<ThreadGroup>(shared_from_this(), cluster_, membership(ranks, world_rank, name, id, counted),
                                         flavour, flavour != "node");
  };
  return make_for_nodes(
      shared_from_this(), membership(world_ranks, world_rank, name, id), nodes, [&](bool counted) -> GroupMakers {
        return {.on_node = [&, counted](const std::vector<int>& ranks) { return make(ranks, "node", counted); },
                .between_nodes = [&, counted](const std::vector<int>& ranks,
                                              const std::string& flavour) -> std::shared_ptr<ProcessGroup> {
                  const auto group = make(ranks, flavour, counted);
                  return cluster_->between_nodes() ? cluster_->between_nodes()(group) : group;
                }};
      });
}

}  // namespace tessera::collectives
