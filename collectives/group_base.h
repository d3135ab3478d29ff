// SPDX-License-Identifier: Apache-2.0
// The common part of all process groups: it checks sizes, counts bytes and caches sub-groups. An implementation only
// transfers the bytes of one Collective.
#pragma once

#include <array>
#include <map>
#include <optional>

#include "tessera/base/error.h"
#include "tessera/collectives/node_links.h"
#include "tessera/collectives/node_memory.h"
#include "tessera/collectives/process_group.h"

namespace tessera::collectives {

enum class Kind : std::uint8_t {
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kAllToAll,
  kPermute,
  kBroadcast,
  kBarrier,
  kSplit  // an all-gather of one number, checked like a collective
};
/// The name of the collective in messages: `all_gather`.
std::string_view kind_name(Kind kind);

using Pairs = std::vector<std::pair<int, int>>;

/// The data that members compare before a transfer, and the name of the collective for messages. It is sent between
/// processes as plain bytes.
struct Post {
  std::uint64_t signature = 0;  // equal on all members unless ranks diverge
  std::uint64_t bytes = 0;
  std::int64_t number = 0;
  std::int32_t root = 0;
  Kind kind = Kind::kBarrier;
  DType dtype = DType::kU8;
  Reduction reduction = Reduction::kSum;
  std::array<char, 48> extra{};  // the pairs of a permute, possibly truncated
  std::array<char, 180> text{};  // "all_reduce %17 over {data}", possibly truncated
  /// `all_reduce %17 over {data}`.
  [[nodiscard]] std::string name() const { return text.data(); }
  /// `all_reduce %17 over {data} (f32 sum, 1024 bytes, number 12 of its group)`.
  [[nodiscard]] std::string description() const;
};

/// One call of a collective on one rank.
struct Collective {
  Kind kind = Kind::kBarrier;
  std::span<const std::byte> in = {};
  std::span<std::byte> out = {};
  DType dtype = DType::kU8;
  Reduction reduction = Reduction::kSum;
  int root = 0;               // kBroadcast
  Pairs pairs = {};           // kPermute
  std::size_t stride = 0;     // bytes from part to part of the complete buffer; 0: contiguous parts
  std::size_t detail = 0;     // a hash of other attributes that must agree
  std::int64_t number = 0;    // its number among the collectives of its group
  std::int64_t sequence = 0;  // CollectiveLabel::sequence
  std::string text = {};      // "all_reduce %17 over {data}"

  [[nodiscard]] Post post() const;
  /// The offset of part k in the complete buffer, for parts of `bytes` bytes.
  [[nodiscard]] std::size_t part_begin(std::size_t k, std::size_t bytes) const {
    return k * (stride != 0 ? stride : bytes);
  }

 private:
  [[nodiscard]] std::size_t signature() const;
};

/// The place in the program that a rank has reached when members compare their collectives.
struct Position {
  int rank = 0;
  Post post;
};
/// Text such as `ranks diverge: rank 2 is at …; ranks 0, 1, 3 are at …`, with the smallest set of ranks first. It
/// includes sizes and numbers if the texts are equal.
std::string divergence_message(const std::vector<Position>& positions);

/// Thrown when a rank stops only because another one failed. It is never the first error of a job.
class PeerFailed : public Error {
 public:
  using Error::Error;
};

/// Creates groups; one object per rank. All sub-groups of a world share it.
class Fabric {
 public:
  virtual ~Fabric() = default;
  /// Collective over `world_ranks`, which include this rank. `id` is equal on all members and was not used before by
  /// this rank.
  virtual std::shared_ptr<ProcessGroup> make_group(const std::vector<int>& world_ranks, const std::string& name,
                                                   std::int64_t id) = 0;
  /// These four functions are those of ProcessGroup, for members given by their world ranks.
  [[nodiscard]] virtual std::vector<int> nodes_of(const std::vector<int>& /*world_ranks*/) const { return {}; }
  virtual void advance(std::uint64_t /*progress*/) {}
  virtual void works_on(std::string_view /*text*/) {}
  virtual void await_progress(const std::vector<int>& /*world_ranks*/, std::uint64_t /*progress*/,
                              const std::string& /*group*/) {}
  /// The links between nodes, equal on all ranks.
  [[nodiscard]] virtual NodeLinks links() { return {}; }
  /// Memory that the ranks of this node can read in place; null if they can read all memory or none.
  [[nodiscard]] virtual std::shared_ptr<NodeMemory> memory_for_peers() const { return nullptr; }
  std::int64_t next_id = 1;
  int world_rank = 0;
  TrafficCounters traffic;  // of all groups
};

/// The members of a group and the position of this rank among them.
struct Membership {
  std::vector<int> world_ranks;
  int rank = 0;
  std::string name;
  std::int64_t id = 0;
  bool counted = true;  // false for the sub-groups of a hierarchical group, which counts for them
  std::vector<std::size_t> by_world_rank = {};  // the members in increasing order of their world ranks
  [[nodiscard]] int size() const { return static_cast<int>(world_ranks.size()); }
  /// Sorts the operands of a reduction, one for each member, by world rank. Reductions add them in this order, so a sum
  /// has the same bits for every order of the members: data=2,fsdp=2 gives the same results as fsdp=4.
  [[nodiscard]] std::vector<const std::byte*> summands(const std::vector<const std::byte*>& operands) const;
};
/// Makes the membership of `world_rank` in the group of these ranks.
Membership membership(const std::vector<int>& world_ranks, int world_rank, const std::string& name, std::int64_t id,
                      bool counted = true);

class GroupBase : public ProcessGroup {
 public:
  GroupBase(std::shared_ptr<Fabric> fabric, Membership members)
      : fabric_(std::move(fabric)), members_(std::move(members)) {}

  [[nodiscard]] int rank() const final { return members_.rank; }
  [[nodiscard]] int size() const final { return members_.size(); }
  [[nodiscard]] const std::string& name() const final { return members_.name; }

  void all_gather(std::span<const std::byte> in, std::span<std::byte> out, const CollectiveLabel& label) final;
  void reduce_scatter(std::span<const std::byte> in, std::span<std::byte> out, DType dtype, Reduction op,
                      const CollectiveLabel& label) final;
  void all_reduce(std::span<const std::byte> in, std::span<std::byte> out, DType dtype, Reduction op,
                  const CollectiveLabel& label) final;
  void all_to_all(std::span<const std::byte> in, std::span<std::byte> out, const CollectiveLabel& label) final;
  void permute(std::span<const std::byte> in, std::span<std::byte> out, const Pairs& pairs,
               const CollectiveLabel& label) final;
  void broadcast(std::span<std::byte> data, int root, const CollectiveLabel& label) final;
  void barrier(const CollectiveLabel& label) final;
  std::unique_ptr<PendingOperation> start_all_gather(std::span<const std::byte> in, std::span<std::byte> out,
                                                     const CollectiveLabel& label) final;
  std::unique_ptr<PendingOperation> start_reduce_scatter(std::span<const std::byte> in, std::span<std::byte> out,
                                                         DType dtype, Reduction op, const CollectiveLabel& label) final;
  std::unique_ptr<PendingOperation> start_all_reduce(std::span<const std::byte> in, std::span<std::byte> out,
                                                     DType dtype, Reduction op, const CollectiveLabel& label) final;
  /// Like all_gather() and reduce_scatter() within a node, but part k of the complete buffer begins at byte k * stride.
  /// The bytes between the parts do not change.
  void all_gather_apart(std::span<const std::byte> in, std::span<std::byte> out, std::size_t stride,
                        const CollectiveLabel& label);
  void reduce_scatter_apart(std::span<const std::byte> in, std::span<std::byte> out, std::size_t stride, DType dtype,
                            Reduction op, const CollectiveLabel& label);
  std::shared_ptr<ProcessGroup> split(const std::vector<std::vector<int>>& groups, const std::string& name) final;
  [[nodiscard]] std::vector<int> nodes() const final { return fabric_->nodes_of(members_.world_ranks); }
  void advance(std::uint64_t progress) final { fabric_->advance(progress); }
  void await_progress(std::uint64_t progress) final { fabric_->await_progress(members_.world_ranks, progress, name()); }
  void works_on(std::string_view text) final { fabric_->works_on(text); }
  [[nodiscard]] const TrafficCounters& traffic() const final;
  [[nodiscard]] const TrafficCounters& rank_traffic() const final;

 protected:
  /// Transfers the bytes; size() > 1. Adds the bytes it receives through MPI by count_mpi.
  virtual void run(const Collective& call) = 0;
  /// Starts the transfer and returns without waiting. The default implementation calls run().
  virtual std::unique_ptr<PendingOperation> start(Collective call);

  [[nodiscard]] const Membership& members() const { return members_; }
  [[nodiscard]] int world_rank(int member) const { return members_.world_ranks[static_cast<std::size_t>(member)]; }
  [[nodiscard]] Fabric& fabric() const { return *fabric_; }
  [[nodiscard]] const std::shared_ptr<Fabric>& shared_fabric() const { return fabric_; }
  /// Adds bytes that this rank received through MPI to the counters of this group and of the fabric.
  void count_mpi(std::int64_t bytes);
  /// The same for bytes that a sub-group has already added to the counters of the fabric.
  void count_own_mpi(std::int64_t bytes) { traffic_.mpi_payload += bytes; }

 private:
  Collective gather_call(std::span<const std::byte> in, std::span<std::byte> out);
  Collective reduce_call(Kind kind, std::span<const std::byte> in, std::span<std::byte> out, DType dtype, Reduction op);
  [[nodiscard]] std::size_t extent(std::size_t part, std::size_t stride) const {
    return static_cast<std::size_t>(size() - 1) * stride + part;
  }
  void prepare(Collective& call, const CollectiveLabel& label);
  void execute(Collective call, const CollectiveLabel& label);
  std::unique_ptr<PendingOperation> begin(Collective call, const CollectiveLabel& label);
  void count(std::int64_t TrafficCounters::*counter, std::int64_t bytes);

  std::shared_ptr<Fabric> fabric_;
  Membership members_;
  TrafficCounters traffic_;
  std::int64_t number_ = 0;
  std::map<std::string, std::shared_ptr<ProcessGroup>> subgroups_;
};

}  // namespace tessera::collectives
