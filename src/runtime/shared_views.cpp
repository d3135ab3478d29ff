// SPDX-License-Identifier: Apache-2.0
#include "shared_views.h"

#include <algorithm>

#include "tessera/base/error.h"
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
  world.label({0, "where operands of all-gathers lie"});
  world.all_gather(std::as_bytes(std::span(own_)), std::as_writable_bytes(std::span(all)));
  for (std::size_t k = 0; k < views_.size(); ++k) {
    std::vector<NodePlace> places;
    for (const int member : groups_[k]->members) {
      const std::size_t row = static_cast<std::size_t>(member) * own_.size();
      places.push_back({static_cast<int>(all[row]), all[row + 1 + k]});
    }
    map_one(k, std::move(places));
  }
}

void SharedViews::map_one(std::size_t k, std::vector<NodePlace> places) {
  if (views_[k].places == places) return;
  View view{std::move(places), nullptr, nullptr};
  const auto bytes = operand_bytes(k);
  const auto known = std::find_if(views_.begin(), views_.begin() + static_cast<std::ptrdiff_t>(k), [&](const View& v) {
    return v.places == view.places && operand_bytes(static_cast<std::size_t>(&v - views_.data())) == bytes;
  });
  const bool readable =
      std::all_of(view.places.begin(), view.places.end(), [](const NodePlace& p) { return p.offset >= 0; });
  if (readable && known != views_.begin() + static_cast<std::ptrdiff_t>(k)) {
    view.mapped = known->mapped;
  } else if (readable) {
    view.mapped = memory_->side_by_side(view.places, static_cast<std::size_t>(bytes));
    require(view.mapped != nullptr, "the memory of {} ranks ({} bytes each) cannot be mapped", view.places.size(),
            bytes);
  } else {
    view.copy = std::make_unique<DeviceMemory>(rank_memory().pool, bytes * isize(view.places));
  }
  views_[k] = std::move(view);
}

bool SharedViews::is_copy(BufferId result) const {
  for (std::size_t k = 0; k < views_.size(); ++k)
    if (schedule_.shared_gathers[k].result == result) return views_[k].copy != nullptr;
  return true;
}

}  // namespace tessera
