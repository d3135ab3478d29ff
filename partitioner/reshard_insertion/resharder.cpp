// SPDX-License-Identifier: Apache-2.0
#include "reshard_insertion/resharder.h"

#include <algorithm>

#include "normalize/duplicate_cheap_values.h"
#include "propagation/propagate.h"
#include "reshard_insertion/insert_reshards.h"
#include "tessera/ops/rows.h"
#include "tessera/partitioner/reshard_planning/plan_reshard.h"
#include "tessera/sharding/placement.h"

namespace tessera {

bool has_other_shardings(const Shardings& results, const Instruction& instruction) {
  return !std::equal(results.begin(), results.end(), instruction.sharding->begin(), instruction.sharding->end(),
                     [](const Sharding& made, const Sharding& found) { return made == found.closed(); });
}

Copies copies_of_operands(const CopiesOfValues& all, const Instruction& instruction) {
  Copies out;
  for (const Id operand : instruction.operands) out.insert(out.end(), at(all, operand).begin(), at(all, operand).end());
  return out;
}

bool add_copies(OpRequest& request, const Copies& copies) {
  bool adds = false;
  for (int leaf = 0; leaf < isize(copies); ++leaf)
    for (const ShardingRef& sharding : at(copies, leaf)) {
      if (request.copies.empty()) request.copies.resize(request.operands.size());
      auto& there = at(request.copies, leaf);
      const auto is_same = [&](const ShardingRef& other) { return *other == *sharding; };
      if (is_same(at(request.operands, leaf)) || std::any_of(there.begin(), there.end(), is_same)) continue;
      there.push_back(sharding);
      adds = true;
    }
  return adds;
}

Value Resharder::to(Value leaf, const Sharding& target, const Who& by, ReshardCause cause, Id mark) {
  if (!leaf.type().is_array() || sharding_of(leaf) == target) return leaf;
  // The same placement with other axes: localize turns this copy into nothing.
  if (same_placement(leaf.type(), sharding_of(leaf), target)) return builder_.append(copied(leaf, target));
  auto& made = copies_[leaf.id];
  for (const auto& [sharding, value] : made)
    if (sharding == target) return value;
  const Instruction source = leaf.instruction();
  if (is_made_here(leaf) && target.is_tiled() && !target.is_partial()) {
    Instruction again = source;
    again.sharding = shardings_.shared(target);
    made.emplace_back(target, builder_.append(std::move(again)));
    return made.back().second;
  }
  if (const auto again = rematerializer_.rematerialized(leaf, target)) {
    made.emplace_back(target, *again);
    return *again;
  }
  Instruction copy = copied(leaf, target);
  copy.name = source.name + std::string(kReshardSuffix);
  const bool by_mark = cause == ReshardCause::kMark && old_[mark].notes;
  copy.notes = reshard_notes(by_mark ? old_[mark].notes : source.notes,
                             {builder_.computation(), origins_, leaf.id, target, by(), cause, mark, region_});
  const std::string next = next_ ? next_() : "";
  if (!next.empty()) copy.notes = with_frontend_attribute(copy.notes, kNextAttribute, next);
  Value value = builder_.append(std::move(copy));
  if (leaf.type().ndim() == 0 && sharding_of(leaf).is_partial()) asked(leaf, value);  // no other annotation is possible
  made.emplace_back(target, value);
  return value;
}

Value Resharder::reduced(Value leaf, const Sharding& required, const Who& by) {
  const Sharding& now = sharding_of(leaf);
  const Sharding complete = now.without_partial();
  const bool to_required =
      reshard_cost(leaf.type(), now, required, links_) < reshard_cost(leaf.type(), now, complete, links_);
  return to(leaf, to_required ? required : complete, by);
}

Value Resharder::without_partial(Value leaf, const Who& by) {
  if (!leaf.type().is_array() || !sharding_of(leaf).is_partial()) return leaf;
  return to(leaf, sharding_of(leaf).without_partial(), by);
}

bool Resharder::is_made_here(Value leaf) const {
  return sharding_of(leaf).is_tiled() && sharding_of(leaf).manual.empty() &&
         is_rematerializable(builder_.computation(), leaf.instruction());
}

void Resharder::asked(const Value& before, const Value& after) {
  if (after.id == before.id) return;
  builder_.set_notes(after, with_frontend_attribute(after.instruction().notes, kAskedAttribute, "true"));
}

Instruction Resharder::copied(Value leaf, const Sharding& target) {
  Instruction copy;
  copy.op = &rows::kCopy;
  copy.type = leaf.type();
  copy.operands = {leaf.id};
  copy.sharding = shardings_.shared(target);
  copy.name = leaf.instruction().name;
  return copy;
}

Copies Resharder::copies_of(const std::vector<Value>& operands) const {
  Copies out;
  for (int i = 0; i < isize(operands); ++i) {
    const auto made = copies_.find(at(operands, i).id);
    if (made == copies_.end() || made->second.empty()) continue;
    out.resize(operands.size());
    for (const auto& [sharding, copy] : made->second) at(out, i).push_back(copy.instruction().sharding);
  }
  return out;
}

}  // namespace tessera
