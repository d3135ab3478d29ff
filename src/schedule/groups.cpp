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
    sources_.resize(flow.kinds.size());
    for (const Id id : order) {
      if (!can_join(id)) continue;
      for (const Id reader : at(flow.consumers, at(flow.first_slot, id))) at(sources_, reader).push_back(id);
    }
    is_awaited_.assign(flow.kinds.size(), false);
    for (const auto& waits : flow.waits)
      for (const Id before : waits) is_awaited_[static_cast<std::size_t>(before)] = true;
  }

  std::vector<std::vector<Id>> run() {
    for (const Id id : order_) {
      if (!add_to_product(id)) {
        if (can_join(id))
          join(id);
        else
          start(id, {});
      }
      note_reads(id);
    }
    std::vector<std::vector<Id>> steps(order_.size());  // by the position of the last member
    for (auto& [members, readers, shape, awaited] : groups_)
      if (!members.empty()) at(steps, at(position_, members.back())) = std::move(members);
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

  struct Group {
    std::vector<Id> members;
    std::vector<Id> readers;  // instructions of other groups, so far, that read members
    Shape shape;
    bool awaited = false;  // through a control edge
  };

  bool can_join(Id id) const {
    return at(flow_.kinds, id) == OpKind::kElementwise || columns_of(at(flow_.views, id)) > 0;
  }
  void start(Id id, const Shape& shape) {
    at(group_of_, id) = isize(groups_);
    groups_.push_back({{id}, {}, shape, at(is_awaited_, id)});
  }
  // Records that `id`, which has a group now, reads values of other groups.
  void note_reads(Id id) {
    for (const Id source : at(sources_, id))
      if (const int group = at(group_of_, source); group >= 0 && group != at(group_of_, id))
        at(groups_, group).readers.push_back(id);
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
      if (group < 0 || at(groups_, group).members.size() != 1) continue;
      at(groups_, group).members.push_back(id);
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
    drop_those_read_elsewhere(together);
    std::size_t size = 1;
    std::erase_if(together, [&](int group) {
      const std::size_t more = at(groups_, group).members.size();
      if (size + more > kMaxGroup) return true;
      size += more;
      return false;
    });
    drop_those_read_elsewhere(together);  // groups that were dropped for their size count as outside readers
    const Shape shape =
        own_shape(id, [&](int group) { return std::find(together.begin(), together.end(), group) != together.end(); });
    if (together.empty()) return start(id, shape);
    groups_.push_back(combined(id, together, shape));
  }
  // Moves the members of the groups, and `id`, to a new group.
  Group combined(Id id, const std::vector<int>& together, const Shape& shape) {
    Group out{{}, {}, shape, at(is_awaited_, id)};
    for (const int one : together) {
      Group& group = at(groups_, one);
      const auto both = merged(out.shape, group.shape);
      ensure(both.has_value(), "groups of other shapes run together");
      out.shape = *both;
      out.members.insert(out.members.end(), group.members.begin(), group.members.end());
      out.readers.insert(out.readers.end(), group.readers.begin(), group.readers.end());
      group = {};
    }
    std::sort(out.members.begin(), out.members.end(), [&](Id a, Id b) { return at(position_, a) < at(position_, b); });
    out.members.push_back(id);
    for (const Id member : out.members) at(group_of_, member) = isize(groups_);
    std::erase_if(out.readers, [&](Id reader) { return at(group_of_, reader) == isize(groups_); });
    return out;
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
      const auto both = merged(shape, at(groups_, group).shape);
      if (both) shape = *both;
      return !both;
    });
    return found;
  }

  // A group may be delayed to the next instruction only if no instruction outside read it, or waits for it, before.
  void drop_those_read_elsewhere(std::vector<int>& together) const {
    const auto is_read_outside = [&](int group) {
      const auto& readers = at(groups_, group).readers;
      return std::any_of(readers.begin(), readers.end(), [&](Id reader) {
        return std::find(together.begin(), together.end(), at(group_of_, reader)) == together.end();
      });
    };
    // A group that others await through a control edge stays at its place.
    std::erase_if(together, [&](int group) { return at(groups_, group).awaited; });
    while (std::erase_if(together, is_read_outside) > 0) {
    }
  }

  const Flow& flow_;
  const std::vector<Id>& order_;
  std::vector<int> position_;
  std::vector<int> group_of_;             // per instruction; -1 for sums that dots compute
  std::vector<std::vector<Id>> sources_;  // per instruction: the members of groups that it reads
  std::vector<bool> is_awaited_;          // per instruction
  std::vector<Group> groups_;
};

}  // namespace

std::vector<std::vector<Id>> group_steps(const Flow& flow, const std::vector<Id>& order, bool fuse) {
  if (fuse) return Grouper(flow, order).run();
  std::vector<std::vector<Id>> steps;
  for (const Id id : order) steps.push_back({id});
  return steps;
}

}  // namespace tessera::schedule
