// SPDX-License-Identifier: Apache-2.0
// The node memory of a rank: one large sparse segment that is allocated in blocks of pages. Peers map the complete
// segment once.
#pragma once

#include <boost/icl/interval_set.hpp>
#include <functional>
#include <map>
#include <mutex>

#include "shared_memory/segment.h"
#include "tessera/collectives/node_memory.h"

namespace tessera::collectives {

/// The segments of the ranks of a node, as mapped by this process. Virtual ranks share one table.
class SegmentTable {
 public:
  void add(int world_rank, Segment segment);
  /// Null if unknown; the address is stable.
  [[nodiscard]] const Segment* find(int world_rank) const;

 private:
  mutable std::mutex mutex_;
  std::map<int, Segment> segments_;
};

class Heap final : public NodeMemory {
 public:
  /// A heap of at most `bytes`; null if the system refuses the segment.
  static std::shared_ptr<Heap> create(int world_rank, std::size_t bytes, std::shared_ptr<SegmentTable> table);

  std::byte* take(std::size_t bytes) override;
  void give_back(std::byte* block, std::size_t bytes) override;
  [[nodiscard]] std::int64_t offset_of(const std::byte* data) const override;
  [[nodiscard]] std::shared_ptr<std::byte> side_by_side(std::span<const NodePlace> places, std::size_t bytes,
                                                        Use use) const override;
  /// The address in this process of the memory of a rank of the node.
  [[nodiscard]] const std::byte* address_of(int world_rank, std::int64_t offset) const {
    return table_->find(world_rank)->data() + offset;
  }
  [[nodiscard]] SegmentAddress address() const { return own_->address(); }
  [[nodiscard]] SegmentTable& table() const { return *table_; }

 private:
  Heap(int world_rank, std::size_t bytes, std::shared_ptr<SegmentTable> table);

  std::shared_ptr<SegmentTable> table_;
  const Segment* own_;
  std::mutex mutex_;
  boost::icl::interval_set<std::size_t> free_;  // right-open ranges of offsets; adjacent ones are merged
};

/// The most bytes that a rank may hold: the memory of the machine.
std::size_t machine_memory_bytes();

/// The node memory of the calling rank, created on first use.
struct OwnNodeMemory {
  std::shared_ptr<NodeMemory> memory;
  std::function<std::shared_ptr<NodeMemory>()> make;
};

}  // namespace tessera::collectives
