// SPDX-License-Identifier: Apache-2.0
#include "shared_gathers.h"

#include <algorithm>
#include <map>

#include "scratch.h"
#include "tessera/ops/collectives.h"

namespace tessera::schedule {
namespace {

bool overlap(const Buffer& a, const Buffer& b) {
  return a.place == Place::kArena && b.place == Place::kArena && a.offset < b.offset + b.bytes &&
         b.offset < a.offset + a.bytes;
}

}  // namespace

bool stays_on_nodes(const CollectiveAttributes& attributes, const std::vector<int>& nodes) {
  const auto one_node = [&](const std::vector<std::int64_t>& group) {
    return group.size() > 1 && std::all_of(group.begin(), group.end(), [&](std::int64_t device) {
             return device >= 0 && device < isize(nodes) && at(nodes, device) == at(nodes, group.front());
           });
  };
  const auto& groups = attributes.replica_groups.groups;
  if (groups.empty())
    return nodes.size() > 1 && std::all_of(nodes.begin(), nodes.end(), [&](int node) { return node == nodes[0]; });
  std::size_t members = 0;
  for (const auto& group : groups) members += group.size();
  return members == nodes.size() && std::all_of(groups.begin(), groups.end(), one_node);
}

std::vector<int> shared_operands(const Flow& flow, const std::vector<int>& nodes) {
  std::vector<int> out;
  if (nodes.size() < 2) return out;
  for (Id id = 0; id < flow.computation->size(); ++id) {
    const Instruction& instruction = (*flow.computation)[id];
    if (instruction.op->name != "all-gather" || !at(flow.in_memory, id)) continue;
    const OpView& view = at(flow.views, id);
    const auto& attributes = view.as<CollectiveAttributes>();
    if (!stays_on_nodes(attributes, nodes)) continue;
    for (int leaf = 0; leaf < isize(instruction.operands); ++leaf) {
      const Slot& operand = flow.slot(at(instruction.operands, leaf));
      const int slot = at(flow.first_slot, id) + leaf;
      if (operand.type.byte_size() == 0 || operand.type.byte_size() % kPageAlignment != 0) continue;
      if (operand.view || flow.is_remade(operand.origin) || at(flow.is_result, slot)) continue;
      if (!parts_are_contiguous(operand.type.dims(), attributes.dimensions.front())) continue;
      out.resize(flow.slots.size(), -1);
      at(out, slot) = operand.origin;
    }
  }
  return out;
}

void add_awaits(const Flow& flow, const std::vector<int>& step_of, const std::vector<BufferId>& buffer_of,
                Schedule& plan) {
  // Which buffers a step writes.
  std::vector<std::vector<BufferId>> written(plan.steps.size() + 1);
  for (std::size_t s = 0; s < flow.slots.size(); ++s)
    if (const int t = at(step_of, flow.slots[s].id); t >= 0 && buffer_of[s] != kNoBuffer)
      at(written, t).push_back(buffer_of[s]);
  for (std::size_t t = 0; t < plan.steps.size(); ++t)
    if (plan.steps[t].scratch != kNoBuffer) written[t].push_back(plan.steps[t].scratch);
  const auto harms = [&](std::size_t t, BufferId operand) {
    return std::any_of(written[t].begin(), written[t].end(), [&](BufferId buffer) {
      return buffer == operand || overlap(at(plan.buffers, buffer), at(plan.buffers, operand));
    });
  };
  const auto add = [](std::vector<Await>& awaits, const Await& one) {
    for (Await& other : awaits)
      if (other.gather == one.gather) {
        other.step = std::max(other.step, one.step);
        return;
      }
    awaits.push_back(one);
  };
  for (const SharedGather& gather : plan.shared_gathers) {
    const auto read_from = static_cast<std::size_t>(at(step_of, gather.id));
    if (gather.written >= 0) add(plan.steps[read_from].awaits, {gather.id, gather.written});
    auto t = static_cast<std::size_t>(gather.last_read) + 1;
    while (t < plan.steps.size() && !harms(t, gather.operand)) ++t;
    if (t < plan.steps.size()) add(plan.steps[t].awaits, {gather.id, gather.last_read});
    add(plan.end_awaits, {gather.id, gather.last_read});  // then parameters and arena belong to others
  }
}

}  // namespace tessera::schedule
