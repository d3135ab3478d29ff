// SPDX-License-Identifier: Apache-2.0
#include "groups.h"

#include <algorithm>
#include <optional>

#include "view.h"

namespace tessera::schedule {
namespace {

constexpr std::size_t kMaxGroup = 192;  // the tiles of a group must stay in the first-level cache

class Grouper {
 public:
  Grouper(const Flow& flow, const std::vector<Id>& order) : flow_(flow), order_(order) {
    position_.assign(flow.kinds.size(), -1);
    for (int p = 0; p < isize(order); ++p) at(position_, at(order, p)) = p;
    group_of_.assign(flow.kinds.size(), -1);
  }

  std::vector<std::vector<Id>> run() {
    for (const Id id : order_) {
      if (add_to_product(id)) continue;
      if (can_join(id))
        join(id);
      else
        start(id, {});
    }
    std::vector<std::vector<Id>> steps(order_.size());  // by the position of the last member
    for (auto& group : groups_)
      if (!group.empty()) at(steps, at(position_, group.back())) = std::move(group);
    std::erase_if(steps, [](const auto& step) { return step.empty(); });
    return steps;
  }

 private:
  // The elements that a group processes: `full` elements. If members are reductions, these form rows of `columns`
  // elements, and a reduced value has one element per row.
  struct Shape {
    std::int64_t full = 0;
    std::int64_t columns = 0;  // 0: no rows yet
  };
  static std::optional<Shape> merged(const Shape& a, const Shape& b) {
    if (a.columns != 0 && b.columns != 0)
      return a.full == b.full && a.columns == b.columns ? std::optional(a) : std::nullopt;
    if (a.columns != 0) return merged(b, a);
    if (a.full == b.full) return b;
    return b.columns != 0 && a.full * b.columns == b.full ? std::optional(b) : std::nullopt;
  }

  bool can_join(Id id) const {
    return at(flow_.kinds, id) == OpKind::kElementwise || columns_of(at(flow_.views, id)) > 0;
  }
  void start(Id id, const Shape& shape) {
    at(group_of_, id) = isize(groups_);
    groups_.push_back({id});
    shapes_.push_back(shape);
  }

  // Fuses x + dot(..) if neither operand has another reader: the dot adds to x in place.
  bool add_to_product(Id id) {
    const Instruction& sum = (*flow_.computation)[id];
    if (!adds_up(at(flow_.views, id))) return false;
    for (const int which : {0, 1}) {
      const Slot& product = flow_.slot(at(sum.operands, which));
      const Slot& other = flow_.slot(at(sum.operands, 1 - which));
      const Id source = product.id;
      if (!writes_strides(at(flow_.views, source)) || product.view || product.origin == other.origin) continue;
      if (at(flow_.consumers, product.origin).size() != 1 || at(flow_.is_result, product.origin)) continue;
      if (other.view || !dies_at(other.origin, id)) continue;
      const int group = at(group_of_, source);
      if (group < 0 || at(groups_, group).size() != 1) continue;
      at(groups_, group).push_back(id);
      return true;
    }
    return false;
  }
  // Whether a step computes the value and no instruction after `id` reads it.
  bool dies_at(int origin, Id id) const {
    const auto& readers = at(flow_.consumers, origin);
    return at(flow_.in_memory, at(flow_.slots, origin).id) && !at(flow_.is_result, origin) &&
           std::all_of(readers.begin(), readers.end(),
                       [&](Id reader) { return at(position_, reader) <= at(position_, id); });
  }

  // The shape that the instruction alone requires: that of a reduction, or of an operand that repeats one element per
  // row of a value whose group is wanted.
  template <class Wanted>
  Shape own_shape(Id id, Wanted&& is_wanted) const {
    const OpView& view = at(flow_.views, id);
    if (const auto columns = columns_of(view); columns > 0) return {view.operands[0].element_count(), columns};
    Shape out{view.result.element_count(), 0};
    for (const Id operand : (*flow_.computation)[id].operands)
      if (out.columns == 0 && is_wanted(at(group_of_, at(flow_.slots, flow_.origin_of(operand)).id)))
        out.columns = row_operand(operand);
    return out;
  }
  // The number of columns over which an operand repeats each element of a value that may be in a group; 0 if it does
  // not.
  std::int64_t row_operand(Id operand) const {
    const Slot& slot = flow_.slot(operand);
    const Slot& origin = at(flow_.slots, slot.origin);
    if (!slot.view || !can_join(origin.id) || origin.type.dtype() != slot.type.dtype() || origin.view) return 0;
    const auto columns = repeated_columns(*slot.view);
    const std::int64_t rows = origin.type.element_count();
    const bool fits = columns && rows > 0 && *columns <= kMostColumns && *columns * rows == slot.type.element_count();
    return fits ? *columns : 0;
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
    drop_those_read_elsewhere(id, together);  // groups that were dropped for their size count as outside readers
    Shape shape =
        own_shape(id, [&](int group) { return std::find(together.begin(), together.end(), group) != together.end(); });
    if (together.empty()) return start(id, shape);
    std::vector<Id> members;
    for (const int group : together) {
      const auto both = merged(shape, at(shapes_, group));
      ensure(both.has_value(), "groups of other shapes run together");
      shape = *both;
      members.insert(members.end(), at(groups_, group).begin(), at(groups_, group).end());
      at(groups_, group).clear();
    }
    std::sort(members.begin(), members.end(), [&](Id a, Id b) { return at(position_, a) < at(position_, b); });
    members.push_back(id);
    for (const Id member : members) at(group_of_, member) = isize(groups_);
    groups_.push_back(std::move(members));
    shapes_.push_back(shape);
  }

  // The groups of operands that are read element by element, or one element per row, and whose shapes fit.
  std::vector<int> candidates(Id id) const {
    Shape shape = own_shape(id, [](int group) { return group >= 0; });
    const Computation& computation = *flow_.computation;
    const bool reduces = columns_of(at(flow_.views, id)) > 0;
    std::vector<int> found;
    std::vector<int> refused;
    for (const Id operand : computation[id].operands) {
      const Slot& slot = flow_.slot(operand);
      const Slot& origin = at(flow_.slots, slot.origin);
      const int group = at(group_of_, origin.id);
      if (group < 0 || !can_join(origin.id)) continue;
      const bool is_init = reduces && operand != computation[id].operands.front();
      const auto count = reduces ? shape.full : computation[id].type.element_count();
      const bool plain = !slot.view && origin.type.element_count() == count && origin.type.dtype() == slot.type.dtype();
      const bool by_rows = shape.columns > 0 && !reduces && row_operand(operand) == shape.columns;
      auto& list = !is_init && (plain || by_rows) ? found : refused;
      if (std::find(list.begin(), list.end(), group) == list.end()) list.push_back(group);
    }
    std::erase_if(found, [&](int group) {
      if (std::find(refused.begin(), refused.end(), group) != refused.end()) return true;
      const auto both = merged(shape, at(shapes_, group));
      if (both) shape = *both;
      return !both;
    });
    return found;
  }

  // A group may be delayed to `id` only if no outside instruction reads it, or waits for it, before.
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
    // A group that others await through a control edge stays at its place.
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
  std::vector<Shape> shapes_;  // per group
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
