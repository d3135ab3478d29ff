// SPDX-License-Identifier: Apache-2.0
#include "hierarchical.h"

#include <algorithm>
#include <cstring>

#include "chunk_pipeline.h"
#include "copy_bytes.h"
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

// For blocking collectives: one chunk is in flight while the next is prepared.
constexpr std::size_t kInFlight = 2;

class HierarchicalGroup final : public GroupBase {
 public:
  HierarchicalGroup(std::shared_ptr<Fabric> fabric, Membership membership, Table table, const GroupMakers& makers);

 private:
  void run(const Collective& call) override;
  std::unique_ptr<PendingOperation> start(Collective call) override;
  void move(const Collective& call);
  [[nodiscard]] std::unique_ptr<ChunkPipeline> pipeline(const Collective& call, std::size_t in_flight);
  [[nodiscard]] ChunkPipeline::Stages stages(const Collective& call);
  [[nodiscard]] Chunks chunks_of(std::size_t bytes, std::size_t unit, double between, std::size_t inside,
                                 int steps) const;
  [[nodiscard]] ChunkPipeline::Stages gather_stages(const Collective& call);
  [[nodiscard]] ChunkPipeline::Stages reduce_scatter_stages(const Collective& call);
  [[nodiscard]] ChunkPipeline::Stages all_reduce_stages(const Collective& call);
  void share(const Collective& call, std::size_t node, Bytes mine, std::size_t begin);
  void reduce(const Collective& call, std::size_t node, MutableBytes sums, std::size_t begin);
  [[nodiscard]] std::shared_ptr<Scratch> idle_scratch();
  void all_to_all_nodes(const Collective& call);
  void permute_nodes(const Collective& call);
  void broadcast_nodes(const Collective& call);
  void barrier_nodes(const Collective& call);

  // Collectives of sub-groups have the label of the complete collective.
  static CollectiveLabel label_of(const Collective& call) { return {call.sequence, call.text}; }
  [[nodiscard]] std::size_t member(std::size_t node, std::size_t place) const {
    return static_cast<std::size_t>(table_[node][place]);
  }
  // The distance between consecutive members of the node in the group; 0 if it varies, in which case parts are packed.
  [[nodiscard]] std::size_t distance(std::size_t node) const {
    const auto& row = table_[node];
    for (std::size_t k = 2; k < row.size(); ++k)
      if (row[k] - row[k - 1] != row[1] - row[0]) return 0;
    return static_cast<std::size_t>(row[1] - row[0]);
  }
  // The number of bytes from the start of the node's first part to the end of `length` bytes of its last part.
  [[nodiscard]] std::size_t extent(std::size_t node, std::size_t part, std::size_t length) const {
    return (member(node, place_count_ - 1) - member(node, 0)) * part + length;
  }
  [[nodiscard]] std::int64_t mpi_bytes() const { return cross_->traffic().mpi_payload + flat_->traffic().mpi_payload; }

  Table table_;
  std::size_t node_count_;
  std::size_t place_count_;
  std::size_t node_ = 0;
  std::size_t place_ = 0;
  std::shared_ptr<GroupBase> local_;
  std::shared_ptr<ProcessGroup> cross_;
  std::shared_ptr<ProcessGroup> flat_;
  std::vector<std::shared_ptr<Scratch>> scratches_;  // of pipelines
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
    case Kind::kSplit:
    case Kind::kReduceScatter:
    case Kind::kAllReduce: return pipeline(call, kInFlight)->wait();
    case Kind::kAllToAll: return all_to_all_nodes(call);
    case Kind::kPermute: return permute_nodes(call);
    case Kind::kBroadcast: return broadcast_nodes(call);
    case Kind::kBarrier: return barrier_nodes(call);
  }
}

// Members of a node must work inside the node in the same order: the first stage runs now for all chunks, the last
// stage in wait().
std::unique_ptr<PendingOperation> HierarchicalGroup::start(Collective call) {
  const std::int64_t before = mpi_bytes();
  auto operation = pipeline(call, Chunks::kMost);
  operation->start();
  count_own_mpi(mpi_bytes() - before);
  return operation;
}

std::unique_ptr<ChunkPipeline> HierarchicalGroup::pipeline(const Collective& call, std::size_t in_flight) {
  return std::make_unique<ChunkPipeline>(stages(call), in_flight, idle_scratch());
}

std::shared_ptr<Scratch> HierarchicalGroup::idle_scratch() {
  for (const auto& scratch : scratches_)
    if (scratch.use_count() == 1) return scratch;
  return scratches_.emplace_back(std::make_shared<Scratch>(fabric().memory_for_peers()));
}

ChunkPipeline::Stages HierarchicalGroup::stages(const Collective& call) {
  if (call.kind == Kind::kReduceScatter) return reduce_scatter_stages(call);
  return call.kind == Kind::kAllReduce ? all_reduce_stages(call) : gather_stages(call);
}

// Splits `bytes` into chunks that are multiples of `unit`. In total, `between` bytes are sent between nodes, in `steps`
// steps per chunk, and `inside` bytes are processed inside the node.
Chunks HierarchicalGroup::chunks_of(std::size_t bytes, std::size_t unit, double between, std::size_t inside,
                                    int steps) const {
  const std::size_t count = best_chunk_count(fabric().links(), between, static_cast<double>(inside), steps);
  return {bytes, bytes / count, unit};
}

// Columns gather between nodes, then each row shares the result of its column, node by node, directly in `out`.
ChunkPipeline::Stages HierarchicalGroup::gather_stages(const Collective& call) {
  const double between = static_cast<double>(call.in.size()) * static_cast<double>(node_count_ - 1);
  const Chunks chunks = chunks_of(call.in.size(), kCacheLine, between, call.out.size(), 2);
  const auto columns = [chunks](const ChunkPipeline& pipeline, std::size_t chunk, std::size_t nodes) {
    return MutableBytes(pipeline.scratch(chunk), nodes * chunks.size(chunk));
  };
  return {.chunks = chunks.count(),
          .scratch_bytes = node_count_ * chunks.longest(),
          .begin =
              [=, this](ChunkPipeline& pipeline, std::size_t chunk) {
                return cross_->start_all_gather(call.in.subspan(chunks.begin(chunk), chunks.size(chunk)),
                                                columns(pipeline, chunk, node_count_), label_of(call));
              },
          .end =
              [=, this](ChunkPipeline& pipeline, std::size_t chunk) {
                const Bytes all = columns(pipeline, chunk, node_count_);
                for (std::size_t node = 0; node < node_count_; ++node) {
                  share(call, node, all.subspan(node * chunks.size(chunk), chunks.size(chunk)), chunks.begin(chunk));
                  pipeline.poll();
                }
              }};
}

// Copies `mine` of every place to its position in the parts of the node's members.
void HierarchicalGroup::share(const Collective& call, std::size_t node, Bytes mine, std::size_t begin) {
  const std::size_t part = call.in.size();
  if (distance(node) != 0) {
    const auto out = call.out.subspan(member(node, 0) * part + begin, extent(node, part, mine.size()));
    return local_->all_gather_apart(mine, out, distance(node) * part, label_of(call));
  }
  more_scratch_.resize(place_count_ * mine.size());
  local_->all_gather(mine, more_scratch_, label_of(call));
  for (std::size_t place = 0; place < place_count_; ++place)
    copy_bytes(call.out.data() + member(node, place) * part + begin, more_scratch_.data() + place * mine.size(),
               mine.size());
}

// Rows reduce the parts of each node, then columns reduce between nodes.
ChunkPipeline::Stages HierarchicalGroup::reduce_scatter_stages(const Collective& call) {
  const double between = static_cast<double>(call.out.size()) * static_cast<double>(node_count_ - 1);
  const Chunks chunks = chunks_of(call.out.size(), kCacheLine, between, call.in.size(), 2);
  return {.chunks = chunks.count(),
          .scratch_bytes = node_count_ * chunks.longest(),
          .begin =
              [=, this](ChunkPipeline& pipeline, std::size_t chunk) {
                const std::size_t length = chunks.size(chunk);
                const MutableBytes sums(pipeline.scratch(chunk), node_count_ * length);
                for (std::size_t node = 0; node < node_count_; ++node) {
                  reduce(call, node, sums.subspan(node * length, length), chunks.begin(chunk));
                  pipeline.poll();
                }
                return cross_->start_reduce_scatter(sums, call.out.subspan(chunks.begin(chunk), length), call.dtype,
                                                    call.reduction, label_of(call));
              },
          .end = nullptr};
}

void HierarchicalGroup::reduce(const Collective& call, std::size_t node, MutableBytes sums, std::size_t begin) {
  const std::size_t part = call.out.size();
  if (distance(node) != 0) {
    const auto in = call.in.subspan(member(node, 0) * part + begin, extent(node, part, sums.size()));
    return local_->reduce_scatter_apart(in, sums, distance(node) * part, call.dtype, call.reduction, label_of(call));
  }
  more_scratch_.resize(place_count_ * sums.size());
  for (std::size_t place = 0; place < place_count_; ++place)
    copy_bytes(more_scratch_.data() + place * sums.size(), call.in.data() + member(node, place) * part + begin,
               sums.size());
  local_->reduce_scatter(more_scratch_, sums, call.dtype, call.reduction, label_of(call));
}

// Each place of a row owns a slice of a chunk. Every place reduces the remainder of an uneven size; it is sent after
// the slice.
ChunkPipeline::Stages HierarchicalGroup::all_reduce_stages(const Collective& call) {
  const auto element = static_cast<std::size_t>(dtype_size(call.dtype));
  const double others = static_cast<double>(node_count_ - 1) / static_cast<double>(node_count_);
  const double between = 2 * others * static_cast<double>(call.in.size()) / static_cast<double>(place_count_);
  const Chunks chunks = chunks_of(call.in.size(), kCacheLine * place_count_, between, 2 * call.in.size(), 3);
  struct Lengths {
    std::size_t slice, even, rest;
  };
  const auto lengths = [=, places = place_count_](std::size_t chunk) -> Lengths {
    const std::size_t slice = chunks.size(chunk) / element / places * element;
    return {slice, slice * places, chunks.size(chunk) - slice * places};
  };
  return {.chunks = chunks.count(),
          .scratch_bytes = chunks.longest() / place_count_ + element * place_count_,
          .begin =
              [=, this](ChunkPipeline& pipeline, std::size_t chunk) {
                const auto [slice, even, rest] = lengths(chunk);
                const MutableBytes sums(pipeline.scratch(chunk), slice + rest);
                const Bytes in = call.in.subspan(chunks.begin(chunk), chunks.size(chunk));
                if (slice > 0)
                  local_->reduce_scatter(in.first(even), sums.first(slice), call.dtype, call.reduction, label_of(call));
                if (rest > 0 || slice == 0)
                  local_->all_reduce(in.subspan(even), sums.subspan(slice), call.dtype, call.reduction, label_of(call));
                return cross_->start_all_reduce(sums, sums, call.dtype, call.reduction, label_of(call));
              },
          .end =
              [=, this](ChunkPipeline& pipeline, std::size_t chunk) {
                const auto [slice, even, rest] = lengths(chunk);
                const Bytes sums(pipeline.scratch(chunk), slice + rest);
                const MutableBytes out = call.out.subspan(chunks.begin(chunk), chunks.size(chunk));
                if (slice > 0) local_->all_gather(sums.first(slice), out.first(even), label_of(call));
                copy_bytes(out.data() + even, sums.data() + slice, rest);
              }};
}

// Rows exchange the parts by the place of their target, then columns by its node.
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
  local_->all_to_all(scratch_, more_scratch_, label_of(call));
  for (std::size_t place = 0; place < place_count_; ++place)  // [place from][node to] -> [node to][place from]
    for (std::size_t node = 0; node < node_count_; ++node)
      copy(scratch_.data() + (node * place_count_ + place) * part,
           more_scratch_.data() + (place * node_count_ + node) * part);
  cross_->all_to_all(scratch_, more_scratch_, label_of(call));
  for (std::size_t node = 0; node < node_count_; ++node)  // [node from][place from]
    for (std::size_t place = 0; place < place_count_; ++place)
      copy(call.out.data() + member(node, place) * part, more_scratch_.data() + (node * place_count_ + place) * part);
}

// Exchanges pairs inside a node and pairs between nodes separately. If the target is in the second set, the first one
// writes to scratch memory.
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
  if (!between.empty())
    flat_->permute(call.in, target_between ? call.out : MutableBytes(scratch_), between, label_of(call));
  local_->permute(call.in, target_between ? MutableBytes(scratch_) : call.out, inside, label_of(call));
}

void HierarchicalGroup::broadcast_nodes(const Collective& call) {
  for (std::size_t node = 0; node < node_count_; ++node)
    for (std::size_t place = 0; place < place_count_; ++place) {
      if (table_[node][place] != call.root) continue;
      if (place == place_) cross_->broadcast(call.out, static_cast<int>(node), label_of(call));
      local_->broadcast(call.out, static_cast<int>(place), label_of(call));
    }
}

void HierarchicalGroup::barrier_nodes(const Collective& call) {
  local_->barrier(label_of(call));
  if (place_ == 0) cross_->barrier(label_of(call));
  local_->barrier(label_of(call));
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
