// SPDX-License-Identifier: Apache-2.0
#include "hierarchical.h"

#include <algorithm>
#include <cstring>

#include "tessera/base/text.h"

namespace tessera::collectives {
namespace {

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;
using Table = std::vector<std::vector<int>>;  // [node][place] -> member

Table table_of(const std::vector<int>& nodes) {
  Table table;
  std::vector<int> seen;
  for (int member = 0; member < isize(nodes); ++member) {
    const auto place = std::find(seen.begin(), seen.end(), at(nodes, member));
    if (place == seen.end()) {
      seen.push_back(at(nodes, member));
      table.push_back({member});
      continue;
    }
    at(table, place - seen.begin()).push_back(member);
  }
  return table;
}

// Between nodes it is under way; what is left to do inside the node is done by wait(), since all members of the node must do it in
// the same order as everything else.
class HierarchicalOperation final : public PendingOperation {
 public:
  void wait() override {
    if (!between) return;
    between->wait();
    between = nullptr;
    inside();
  }
  bool test() override { return !between || (between->test() && !inside_waits); }

  std::vector<std::byte> scratch;
  std::unique_ptr<PendingOperation> between;  // goes before the scratch
  std::function<void()> inside = [] {};
  bool inside_waits = false;
};

class HierarchicalGroup final : public GroupBase {
 public:
  HierarchicalGroup(std::shared_ptr<Fabric> fabric, Membership membership, Table table, const GroupMakers& makers);

 private:
  void run(const Collective& call) override;
  std::unique_ptr<PendingOperation> start(Collective call) override;
  void share_gathered(const Collective& call, Bytes columns);
  void reduce_inside(const Collective& call, std::vector<std::byte>& sums);
  void move(const Collective& call);
  void all_gather_nodes(const Collective& call);
  void reduce_scatter_nodes(const Collective& call);
  void all_reduce_nodes(const Collective& call);
  void all_to_all_nodes(const Collective& call);
  void permute_nodes(const Collective& call);
  void broadcast_nodes(const Collective& call);
  void barrier_nodes(const Collective& call);

  // The sub-group, told what the collective is.
  static ProcessGroup& labelled(ProcessGroup& group, const Collective& call) {
    group.label({call.sequence, call.text});
    return group;
  }
  ProcessGroup& local(const Collective& call) const { return labelled(*local_, call); }
  ProcessGroup& cross(const Collective& call) const { return labelled(*cross_, call); }
  ProcessGroup& flat(const Collective& call) const { return labelled(*flat_, call); }
  [[nodiscard]] std::size_t member(std::size_t node, std::size_t place) const {
    return static_cast<std::size_t>(table_[node][place]);
  }
  // Members of the node follow one another in the group: their parts need no packing.
  [[nodiscard]] bool is_contiguous(std::size_t node) const {
    const auto& row = table_[node];
    return row.back() - row.front() + 1 == isize(row);
  }
  [[nodiscard]] std::int64_t mpi_bytes() const { return cross_->traffic().mpi_payload + flat_->traffic().mpi_payload; }

  Table table_;
  std::size_t node_count_;
  std::size_t place_count_;
  std::size_t node_ = 0;
  std::size_t place_ = 0;
  std::shared_ptr<ProcessGroup> local_;
  std::shared_ptr<ProcessGroup> cross_;
  std::shared_ptr<ProcessGroup> flat_;
  std::vector<std::byte> scratch_;
  std::vector<std::byte> more_scratch_;
};

HierarchicalGroup::HierarchicalGroup(std::shared_ptr<Fabric> fabric, Membership membership, Table table,
                                     const GroupMakers& makers)
    : GroupBase(std::move(fabric), std::move(membership)),
      table_(std::move(table)),
      node_count_(table_.size()),
      place_count_(table_[0].size()) {
  for (std::size_t node = 0; node < node_count_; ++node)
    for (std::size_t place = 0; place < place_count_; ++place)
      if (table_[node][place] == rank()) std::tie(node_, place_) = std::tuple(node, place);
  std::vector<int> row;
  for (const int m : table_[node_]) row.push_back(world_rank(m));
  std::vector<int> column;
  for (const auto& members_of_node : table_) column.push_back(world_rank(members_of_node[place_]));
  local_ = makers.on_node(row);
  cross_ = makers.between_nodes(column, "cross");
  flat_ = makers.between_nodes(members().world_ranks, "flat");
}

void HierarchicalGroup::run(const Collective& call) {
  const std::int64_t before = mpi_bytes();
  move(call);
  count_own_mpi(mpi_bytes() - before);
}

void HierarchicalGroup::move(const Collective& call) {
  switch (call.kind) {
    case Kind::kAllGather:
    case Kind::kSplit: return all_gather_nodes(call);
    case Kind::kReduceScatter: return reduce_scatter_nodes(call);
    case Kind::kAllReduce: return all_reduce_nodes(call);
    case Kind::kAllToAll: return all_to_all_nodes(call);
    case Kind::kPermute: return permute_nodes(call);
    case Kind::kBroadcast: return broadcast_nodes(call);
    case Kind::kBarrier: return barrier_nodes(call);
  }
}

std::unique_ptr<PendingOperation> HierarchicalGroup::start(Collective call) {
  const std::int64_t before = mpi_bytes();
  auto operation = std::make_unique<HierarchicalOperation>();
  if (call.kind == Kind::kAllGather) {
    operation->scratch.resize(node_count_ * call.in.size());
    operation->between = cross(call).start_all_gather(call.in, operation->scratch);
    operation->inside_waits = true;
    operation->inside = [this, call, columns = Bytes(operation->scratch)] { share_gathered(call, columns); };
  } else if (call.kind == Kind::kReduceScatter) {
    reduce_inside(call, operation->scratch);
    operation->between = cross(call).start_reduce_scatter(operation->scratch, call.out, call.dtype, call.reduction);
  } else {
    move(call);
  }
  count_own_mpi(mpi_bytes() - before);
  return operation;
}

// Columns gather between nodes, then each row shares what its column brought, node by node, straight into `out`.
void HierarchicalGroup::all_gather_nodes(const Collective& call) {
  const std::size_t part = call.in.size();
  scratch_.resize(node_count_ * part);
  cross(call).all_gather(call.in, scratch_);
  share_gathered(call, scratch_);
}

void HierarchicalGroup::share_gathered(const Collective& call, Bytes columns) {
  const std::size_t part = call.in.size();
  for (std::size_t node = 0; node < node_count_; ++node) {
    const Bytes mine = columns.subspan(node * part, part);
    if (is_contiguous(node)) {
      local(call).all_gather(mine, call.out.subspan(member(node, 0) * part, place_count_ * part));
      continue;
    }
    more_scratch_.resize(place_count_ * part);
    local(call).all_gather(mine, more_scratch_);
    for (std::size_t place = 0; place < place_count_ && part > 0; ++place)
      std::memcpy(call.out.data() + member(node, place) * part, more_scratch_.data() + place * part, part);
  }
}

// Rows reduce what is meant for each node, then columns reduce between nodes.
void HierarchicalGroup::reduce_scatter_nodes(const Collective& call) {
  reduce_inside(call, scratch_);
  cross(call).reduce_scatter(scratch_, call.out, call.dtype, call.reduction);
}

void HierarchicalGroup::reduce_inside(const Collective& call, std::vector<std::byte>& sums) {
  const std::size_t part = call.out.size();
  sums.resize(node_count_ * part);
  for (std::size_t node = 0; node < node_count_; ++node) {
    const MutableBytes mine = MutableBytes(sums).subspan(node * part, part);
    Bytes block;
    if (is_contiguous(node)) {
      block = call.in.subspan(member(node, 0) * part, place_count_ * part);
    } else {
      more_scratch_.resize(place_count_ * part);
      for (std::size_t place = 0; place < place_count_ && part > 0; ++place)
        std::memcpy(more_scratch_.data() + place * part, call.in.data() + member(node, place) * part, part);
      block = more_scratch_;
    }
    local(call).reduce_scatter(block, mine, call.dtype, call.reduction);
  }
}

// Each place of a row owns a slice; what is left of an uneven size goes whole.
void HierarchicalGroup::all_reduce_nodes(const Collective& call) {
  const auto element = static_cast<std::size_t>(dtype_size(call.dtype));
  const std::size_t slice = call.in.size() / element / place_count_ * element;
  const std::size_t even = slice * place_count_;
  if (even < call.in.size()) {
    const MutableBytes tail = call.out.subspan(even);
    local(call).all_reduce(call.in.subspan(even), tail, call.dtype, call.reduction);
    cross(call).all_reduce(tail, tail, call.dtype, call.reduction);
  }
  if (slice == 0 && !call.in.empty()) return;
  scratch_.resize(slice);
  local(call).reduce_scatter(call.in.first(even), scratch_, call.dtype, call.reduction);
  cross(call).all_reduce(scratch_, scratch_, call.dtype, call.reduction);
  local(call).all_gather(scratch_, call.out.first(even));
}

// Rows sort the parts by the place they go to, columns by node.
void HierarchicalGroup::all_to_all_nodes(const Collective& call) {
  const std::size_t part = call.in.size() / static_cast<std::size_t>(size());
  scratch_.resize(call.in.size());
  more_scratch_.resize(call.in.size());
  const auto copy = [&](std::byte* to, const std::byte* from) {
    if (part > 0) std::memcpy(to, from, part);
  };
  for (std::size_t place = 0; place < place_count_; ++place)  // [place to][node to]
    for (std::size_t node = 0; node < node_count_; ++node)
      copy(scratch_.data() + (place * node_count_ + node) * part, call.in.data() + member(node, place) * part);
  local(call).all_to_all(scratch_, more_scratch_);
  for (std::size_t place = 0; place < place_count_; ++place)  // [place from][node to] -> [node to][place from]
    for (std::size_t node = 0; node < node_count_; ++node)
      copy(scratch_.data() + (node * place_count_ + place) * part,
           more_scratch_.data() + (place * node_count_ + node) * part);
  cross(call).all_to_all(scratch_, more_scratch_);
  for (std::size_t node = 0; node < node_count_; ++node)  // [node from][place from]
    for (std::size_t place = 0; place < place_count_; ++place)
      copy(call.out.data() + member(node, place) * part, more_scratch_.data() + (node * place_count_ + place) * part);
}

// Pairs inside a node and pairs between nodes; a target of the latter lets the former write to scratch.
void HierarchicalGroup::permute_nodes(const Collective& call) {
  std::vector<std::pair<std::size_t, int>> where(static_cast<std::size_t>(size()));  // member -> node, place
  for (std::size_t node = 0; node < node_count_; ++node)
    for (std::size_t place = 0; place < place_count_; ++place)
      where[member(node, place)] = {node, static_cast<int>(place)};
  Pairs inside;
  Pairs between;
  bool target_between = false;
  for (const auto& [source, target] : call.pairs) {
    const auto& [source_node, source_place] = at(where, source);
    const auto& [target_node, target_place] = at(where, target);
    if (source_node != target_node) {
      between.emplace_back(source, target);
      target_between = target_between || target == rank();
    } else if (source_node == node_) {
      inside.emplace_back(source_place, target_place);
    }
  }
  scratch_.resize(call.out.size());
  if (!between.empty()) flat(call).permute(call.in, target_between ? call.out : MutableBytes(scratch_), between);
  local(call).permute(call.in, target_between ? MutableBytes(scratch_) : call.out, inside);
}

void HierarchicalGroup::broadcast_nodes(const Collective& call) {
  for (std::size_t node = 0; node < node_count_; ++node)
    for (std::size_t place = 0; place < place_count_; ++place) {
      if (table_[node][place] != call.root) continue;
      if (place == place_) cross(call).broadcast(call.out, static_cast<int>(node));
      local(call).broadcast(call.out, static_cast<int>(place));
    }
}

void HierarchicalGroup::barrier_nodes(const Collective& call) {
  local(call).barrier();
  if (place_ == 0) cross(call).barrier();
  local(call).barrier();
}

}  // namespace

std::shared_ptr<ProcessGroup> make_for_nodes(const std::shared_ptr<Fabric>& fabric, const Membership& members,
                                             const std::vector<int>& nodes,
                                             const std::function<GroupMakers(bool counted)>& makers) {
  auto table = table_of(nodes);
  if (table.size() == 1) return makers(true).on_node(members.world_ranks);
  const bool even =
      std::all_of(table.begin(), table.end(), [&](const auto& row) { return row.size() == table[0].size(); });
  if (!even || table[0].size() == 1) return makers(true).between_nodes(members.world_ranks, "flat");
  return std::make_shared<HierarchicalGroup>(fabric, members, std::move(table), makers(false));
}

}  // namespace tessera::collectives
