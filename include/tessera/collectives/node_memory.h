// SPDX-License-Identifier: Apache-2.0
// Memory of a rank that the other ranks of its node can read in place. Collectives on this memory need no copy to a
// staging area. Blocks in the memory of several ranks can be mapped next to each other, which gives the result of an
// all-gather without a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace tessera {

/// Bytes at `offset` of the memory of `world_rank`.
struct NodePlace {
  int world_rank = 0;
  std::int64_t offset = 0;
  friend bool operator==(const NodePlace&, const NodePlace&) = default;
};

/// The node memory of one rank.
class NodeMemory {
 public:
  static constexpr std::int64_t kPage = 4096;

  virtual ~NodeMemory() = default;
  /// Allocates a block of complete pages; null if there is no space. Any thread may allocate and free.
  virtual std::byte* take(std::size_t bytes) = 0;
  /// Frees the block; its pages return to the system.
  virtual void give_back(std::byte* block, std::size_t bytes) = 0;
  /// The offset of an address in this rank's memory; -1 for any other address.
  [[nodiscard]] virtual std::int64_t offset_of(const std::byte* data) const = 0;
  /// How side_by_side() maps memory.
  enum class Use : std::uint8_t { kRead, kWrite };
  /// Maps `bytes` bytes of each place into one contiguous range of addresses. The mapping is the memory of the ranks,
  /// not a copy. Requires that offsets and `bytes` are multiples of kPage and that all ranks are on this node. Null if
  /// the memory cannot be mapped.
  [[nodiscard]] virtual std::shared_ptr<std::byte> side_by_side(std::span<const NodePlace> places, std::size_t bytes,
                                                                Use use) const = 0;
};

/// The node memory of the calling rank; null if ranks do not share memory.
std::shared_ptr<NodeMemory> node_memory();

}  // namespace tessera
