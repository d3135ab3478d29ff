// SPDX-License-Identifier: Apache-2.0
// The results of all-gathers of which there is one per node: ranges of addresses that map the memory of the ranks,
// either their operands or slices that they write.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "executable/memory.h"
#include "tessera/collectives/process_group.h"
#include "tessera/schedule/schedule.h"

namespace tessera {

/// The members of an all-gather as ranks of the world, including this rank.
struct GatherGroup {
  ProcessGroup* group = nullptr;
  std::vector<int> members;
};

class SharedViews {
 public:
  /// `groups` has the group of each shared all-gather of the schedule.
  SharedViews(const Schedule& schedule, std::vector<const GatherGroup*> groups);
  /// Records the addresses of this rank's operands and slices in this run. Returns true if they have changed.
  bool locate(std::byte* arena, std::span<std::byte* const> parameters);
  /// Maps the memory of the members. Collective over the world. All ranks call it if locate() was true on any of them.
  void map(ProcessGroup& world);
  /// Returns the address of the result of shared all-gather `k`.
  [[nodiscard]] std::byte* address(std::size_t k) const { return views_[k].address(); }
  /// Returns true if a rank could not map the result, so that it must be gathered by copying.
  [[nodiscard]] bool is_copy(BufferId result) const;

 private:
  struct View {
    std::vector<NodePlace> places;
    std::shared_ptr<std::byte> mapped;
    std::unique_ptr<DeviceMemory> copy;
    [[nodiscard]] std::byte* address() const { return copy ? copy->data() : mapped.get(); }
  };
  // Returns false if the memory of the members cannot be mapped.
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
