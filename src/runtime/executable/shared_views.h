// SPDX-License-Identifier: Apache-2.0
// The results of all-gathers of which a node has one: ranges of addresses onto the ranks' own memory, operands or slices.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "executable/memory.h"
#include "tessera/collectives/process_group.h"
#include "tessera/schedule/schedule.h"

namespace tessera {

/// Who takes part in an all-gather: members of the world, this rank among them.
struct GatherGroup {
  ProcessGroup* group = nullptr;
  std::vector<int> members;
};

class SharedViews {
 public:
  /// The group of each of the schedule's shared all-gathers.
  SharedViews(const Schedule& schedule, std::vector<const GatherGroup*> groups);
  /// Notes where this rank's operands and slices lie in this run; true if not where they were.
  bool locate(std::byte* arena, std::span<std::byte* const> parameters);
  /// Maps what the members have located. Collective over the world, when it is true for one of its ranks.
  void map(ProcessGroup& world);
  /// Where the result of shared all-gather `k` is.
  [[nodiscard]] std::byte* address(std::size_t k) const { return views_[k].address(); }
  /// True where ranks could not map it: it has to be gathered there by copies.
  [[nodiscard]] bool is_copy(BufferId result) const;

 private:
  struct View {
    std::vector<NodePlace> places;
    std::shared_ptr<std::byte> mapped;
    std::unique_ptr<DeviceMemory> copy;
    [[nodiscard]] std::byte* address() const { return copy ? copy->data() : mapped.get(); }
  };
  // False where the members' memory cannot be mapped.
  [[nodiscard]] bool map_one(std::size_t k, std::vector<NodePlace> places);
  [[nodiscard]] std::shared_ptr<std::byte> mapped(std::size_t k, const std::vector<NodePlace>& places) const;
  void agree(ProcessGroup& world, const std::vector<std::byte>& refused);
  void use_copy(std::size_t k);
  [[nodiscard]] std::int64_t operand_bytes(std::size_t k) const;

  const Schedule& schedule_;
  std::vector<const GatherGroup*> groups_;
  std::shared_ptr<NodeMemory> memory_;
  std::vector<std::int64_t> own_;  // this rank in the world, then the offset of each operand
  std::vector<View> views_;
  bool has_warned_ = false;
};

}  // namespace tessera
