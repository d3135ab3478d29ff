// SPDX-License-Identifier: Apache-2.0
#include "executable/shared_views.h"

#include <algorithm>
#include <utility>

#include "tessera/base/log.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"

namespace tessera {

SharedViews::SharedViews(const Schedule& schedule, std::vector<const GatherGroup*> groups)
    : schedule_(schedule), groups_(std::move(groups)), memory_(node_memory()), views_(groups_.size()) {}

std::int64_t SharedViews::operand_bytes(std::size_t k) const {
  return at(schedule_.buffers, schedule_.shared_gathers[k].operand).bytes;
}

bool SharedViews::locate(std::byte* arena, std::span<std::byte* const> parameters) {
  std::vector<std::int64_t> now{RankContext::current().rank()};
  for (const SharedGather& gather : schedule_.shared_gathers) {
    const Buffer& operand = at(schedule_.buffers, gather.operand);
    const std::byte* data =
        operand.place == Place::kArena ? arena + operand.offset : parameters[static_cast<std::size_t>(operand.index)];
    const std::int64_t offset = memory_ == nullptr ? -1 : memory_->offset_of(data);
    now.push_back(offset % NodeMemory::kPage == 0 ? offset : -1);
  }
  const bool moved = now != own_;
  own_ = std::move(now);
  return moved;
}

void SharedViews::map(ProcessGroup& world) {
  std::vector<std::int64_t> all(own_.size() * static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(own_)), std::as_writable_bytes(std::span(all)),
                   {0, "the addresses of operands of all-gathers"});
  std::vector<std::byte> refused(views_.size(), std::byte{0});
  for (std::size_t k = 0; k < views_.size(); ++k) {
    std::vector<NodePlace> places;
    for (const int member : groups_[k]->members) {
      const std::size_t row = static_cast<std::size_t>(member) * own_.size();
      places.push_back({static_cast<int>(all[row]), all[row + 1 + k]});
    }
    if (!map_one(k, std::move(places))) refused[k] = std::byte{1};
  }
  agree(world, refused);
}

bool SharedViews::map_one(std::size_t k, std::vector<NodePlace> places) {
  if (views_[k].places == places) return true;
  // Unmap the old view first, because the number of mappings is limited.
  views_[k] = {std::move(places), nullptr, nullptr};
  const bool readable =
      std::all_of(views_[k].places.begin(), views_[k].places.end(), [](const NodePlace& p) { return p.offset >= 0; });
  if (readable)
    views_[k].mapped = mapped(k, views_[k].places);
  else
    use_copy(k);
  return views_[k].address() != nullptr;
}

std::shared_ptr<std::byte> SharedViews::mapped(std::size_t k, const std::vector<NodePlace>& places) const {
  const bool assembled = schedule_.shared_gathers[k].assembled;
  for (std::size_t j = 0; j < k; ++j)
    if (views_[j].mapped && views_[j].places == places && operand_bytes(j) == operand_bytes(k) &&
        schedule_.shared_gathers[j].assembled == assembled)
      return views_[j].mapped;
  return memory_->side_by_side(places, static_cast<std::size_t>(operand_bytes(k)),
                               assembled ? NodeMemory::Use::kWrite : NodeMemory::Use::kRead);
}

void SharedViews::use_copy(std::size_t k) {
  views_[k].mapped = nullptr;
  if (!views_[k].copy)
    views_[k].copy = std::make_unique<DeviceMemory>(rank_memory().pool,
                                                    at(schedule_.buffers, schedule_.shared_gathers[k].result).bytes,
                                                    [] { return "this rank's copy of an all-gathered array"; });
}

// A copy is a collective of all members: if one of them needs a copy, all of them make one.
void SharedViews::agree(ProcessGroup& world, const std::vector<std::byte>& refused) {
  std::vector<std::byte> all(refused.size() * static_cast<std::size_t>(world.size()));
  world.all_gather(refused, all, {0, "which all-gathers cannot be mapped"});
  const auto own = std::count(refused.begin(), refused.end(), std::byte{1});
  if (own > 0 && !std::exchange(has_warned_, true))
    log_warning(
        "rank {} cannot map the memory of its peers for {} of {} all-gathers, which become copies: sysctl "
        "vm.max_map_count limits the mappings of a process",
        world.rank(), own, refused.size());
  for (std::size_t k = 0; k < views_.size(); ++k) {
    const auto& members = groups_[k]->members;
    if (std::any_of(members.begin(), members.end(), [&](int member) {
          return all[static_cast<std::size_t>(member) * refused.size() + k] != std::byte{0};
        }))
      use_copy(k);
  }
}

bool SharedViews::is_copy(BufferId result) const {
  for (std::size_t k = 0; k < views_.size(); ++k)
    if (schedule_.shared_gathers[k].result == result) return views_[k].copy != nullptr;
  return true;
}

}  // namespace tessera
