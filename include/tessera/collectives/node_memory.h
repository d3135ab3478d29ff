// SPDX-License-Identifier: Apache-2.0
// Memory of a rank that the other ranks of its node read in place. What lies there takes part in collectives without a copy to a
// staging area, and parts that several ranks hold can be seen side by side, as an all-gather would make them, without any copy.
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

class NodeMemory {
 public:
  static constexpr std::int64_t kPage = 4096;

  virtual ~NodeMemory() = default;
  /// A block of whole pages; null when there is no room. Any thread may take and give back.
  virtual std::byte* take(std::size_t bytes) = 0;
  /// Its pages go back to the system.
  virtual void give_back(std::byte* block, std::size_t bytes) = 0;
  /// The offset of what lies in this rank's memory, -1 for anything else.
  [[nodiscard]] virtual std::int64_t offset_of(const std::byte* data) const = 0;
  /// `bytes` at each place, one after the other, at one range of addresses: the ranks' own memory, not a copy. Offsets and `bytes` are
  /// multiples of kPage, all ranks of this node. Null where it cannot be mapped.
  enum class Use : std::uint8_t { kRead, kWrite };
  [[nodiscard]] virtual std::shared_ptr<std::byte> side_by_side(std::span<const NodePlace> places, std::size_t bytes,
                                                                Use use) const = 0;
};

/// That of the calling rank; null where ranks do not share memory.
std::shared_ptr<NodeMemory> node_memory();

}  // namespace tessera
