// SPDX-License-Identifier: Apache-2.0
#include "groups.h"

#include <algorithm>

namespace tessera::schedule {
namespace {

constexpr std::size_t kMaxGroup = 192;  // a group's tiles must stay in the first-level cache

class Grouper {
 public:
  Grouper(const Flow& flow, const std::vector<Id>& order) : flow_(flow), order_(order) {
    position_.assign(flow.kinds.size(), -1);
    for (int p = 0; p < isize(order); ++p) at(position_, at(order, p)) = p;
    group_of_.assign(flow.kinds.size(), -1);
  }

  std::vector<std::vector<Id>> run() {
    for (const Id id : order_) {
      if (at(flow_.kinds, id) == OpKind::kElementwise)
        join(id);
      else
        start(id);
    }
    std::vector<std::vector<Id>> steps(order_.size());  // by the place of the last member
    for (auto& group : groups_)
      if (!group.empty()) at(steps, at(position_, group.back())) = std::move(group);
    std::erase_if(steps, [](const auto& step) { return step.empty(); });
    return steps;
  }

 private:
  void start(Id id) {
    at(group_of_, id) = isize(groups_);
    groups_.push_back({id});
  }

  void join(Id id) {
    std::vector<int> together = candidates(id);
    drop_those_read_elsewhere(id, together);
    std::size_t size = 1;
    std::erase_if(together, [&](int group) {
      if (size + at(groups_, group).size() > kMaxGroup) return true;
      size += at(groups_, group).size();
      return false;
    });
    drop_those_read_elsewhere(id, together);  // what was dropped for its size counts as elsewhere
    if (together.empty()) return start(id);
    std::vector<Id> members;
    for (const int group : together) {
      members.insert(members.end(), at(groups_, group).begin(), at(groups_, group).end());
      at(groups_, group).clear();
    }
    std::sort(members.begin(), members.end(), [&](Id a, Id b) { return at(position_, a) < at(position_, b); });
    members.push_back(id);
    for (const Id member : members) at(group_of_, member) = isize(groups_);
    groups_.push_back(std::move(members));
  }

  // Groups of elementwise operands that are read whole and as many elements.
  std::vector<int> candidates(Id id) const {
    const Computation& computation = *flow_.computation;
    const auto count = computation[id].type.element_count();
    std::vector<int> found;
    std::vector<int> refused;
    for (const Id operand : computation[id].operands) {
      const Slot& slot = flow_.slot(operand);
      const Slot& origin = at(flow_.slots, slot.origin);
      const int group = at(group_of_, origin.id);
      if (group < 0 || at(flow_.kinds, origin.id) != OpKind::kElementwise) continue;
      const bool plain = !slot.view && origin.type.element_count() == count && origin.type.dtype() == slot.type.dtype();
      auto& list = plain ? found : refused;
      if (std::find(list.begin(), list.end(), group) == list.end()) list.push_back(group);
    }
    std::erase_if(found, [&](int g) { return std::find(refused.begin(), refused.end(), g) != refused.end(); });
    return found;
  }

  // A group may wait for `id` only if no one outside reads it, or is waited for, before.
  void drop_those_read_elsewhere(Id id, std::vector<int>& together) const {
    const auto inside = [&](Id reader) {
      return std::find(together.begin(), together.end(), at(group_of_, reader)) != together.end();
    };
    const auto reads_members = [&](int group) {
      for (const Id member : at(groups_, group))
        for (const Id reader : at(flow_.consumers, at(flow_.first_slot, member)))
          if (at(position_, reader) >= 0 && at(position_, reader) < at(position_, id) && !inside(reader)) return true;
      return false;
    };
    while (std::erase_if(together, reads_members) > 0) {
    }
    // A control edge out of a group pins it to its place.
    std::erase_if(together, [&](int group) {
      return std::any_of(at(groups_, group).begin(), at(groups_, group).end(),
                         [&](Id member) { return is_awaited(member); });
    });
    while (std::erase_if(together, reads_members) > 0) {
    }
  }
  bool is_awaited(Id id) const {
    if (awaited_.empty()) {
      awaited_.assign(flow_.kinds.size(), false);
      for (const auto& waits : flow_.waits)
        for (const Id before : waits) awaited_[static_cast<std::size_t>(before)] = true;
    }
    return at(awaited_, id);
  }

  const Flow& flow_;
  const std::vector<Id>& order_;
  std::vector<int> position_;
  std::vector<int> group_of_;
  std::vector<std::vector<Id>> groups_;
  mutable std::vector<bool> awaited_;
};

}  // namespace

std::vector<std::vector<Id>> group_steps(const Flow& flow, const std::vector<Id>& order, bool fuse) {
  if (fuse) return Grouper(flow, order).run();
  std::vector<std::vector<Id>> steps;
  for (const Id id : order) steps.push_back({id});
  return steps;
}

}  // namespace tessera::schedule
