// SPDX-License-Identifier: Apache-2.0
#include "shared_gathers.h"

#include <algorithm>

#include "scratch.h"
#include "tessera/ops/collectives.h"

namespace tessera::schedule {

bool overlap(const Buffer& a, const Buffer& b) {
  return a.place == b.place && (a.place == Place::kArena || a.place == Place::kFile) && a.offset < b.offset + b.bytes &&
         b.offset < a.offset + a.bytes;
}

bool same_groups(const Instruction& a, const Instruction& b) {
  const auto& one = attributes_as<CollectiveAttributes>(a.attributes);
  const auto& other = attributes_as<CollectiveAttributes>(b.attributes);
  return one.replica_groups == other.replica_groups && one.use_global_device_ids == other.use_global_device_ids &&
         (one.channel_id != 0) == (other.channel_id != 0);
}

namespace {

// `is_shared`: the operand is the result of such a gather itself. It then consists of parts in the memory of several ranks,
// so that peers cannot read it in the memory of one.
SharedLeaf shared_leaf(const Flow& flow, Id id, int leaf, bool is_shared) {
  const Instruction& instruction = (*flow.computation)[id];
  const Slot& operand = flow.slot(at(instruction.operands, leaf));
  const int slot = at(flow.first_slot, id) + leaf;
  const std::int64_t part = operand.type.byte_size();
  const std::int64_t dim = at(flow.views, id).as<CollectiveAttributes>().dimensions.front();
  if (part == 0 || operand.view || flow.is_recomputed(operand.origin) || at(flow.is_result, slot)) return {};
  if (!parts_are_contiguous(operand.type.dims(), dim)) return {};
  const std::int64_t result_bytes = at(flow.slots, slot).type.byte_size();
  std::int64_t slice = 0;
  if (result_bytes >= kLeastAssembledBytes)
    slice = ceil_div(ceil_div(result_bytes, result_bytes / part), kPageAlignment) * kPageAlignment;
  if (part % kPageAlignment == 0 && !is_shared) return {SharedLeaf::Storage::kInPlace, operand.origin, slice};
  return slice > 0 ? SharedLeaf{SharedLeaf::Storage::kAssembled, operand.origin, slice} : SharedLeaf{};
}

}  // namespace

SharedLeaves shared_leaves(const Flow& flow, const std::vector<int>& nodes) {
  SharedLeaves out;
  if (nodes.size() < 2) return out;
  const Instruction* first = nullptr;
  for (Id id = 0; id < flow.computation->size(); ++id) {
    const Instruction& instruction = (*flow.computation)[id];
    if (instruction.op->collective != CollectiveKind::kAllGather || !at(flow.in_memory, id)) continue;
    if (!stays_on_nodes(at(flow.views, id).as<CollectiveAttributes>(), nodes)) continue;
    for (int leaf = 0; leaf < isize(instruction.operands); ++leaf) {
      const int origin = flow.slot(at(instruction.operands, leaf)).origin;
      const bool is_shared = !out.of_slot.empty() && at(out.of_slot, origin).storage != SharedLeaf::Storage::kNone;
      const SharedLeaf shared = shared_leaf(flow, id, leaf, is_shared);
      if (shared.storage == SharedLeaf::Storage::kNone) continue;
      out.of_slot.resize(flow.slots.size());
      at(out.of_slot, at(flow.first_slot, id) + leaf) = shared;
      if (first == nullptr) first = &instruction;
      out.one_group = out.one_group && same_groups(*first, instruction);
    }
  }
  return out;
}

namespace {

class AwaitPlanner {
 public:
  AwaitPlanner(const Flow& flow, const std::vector<int>& step_of, const std::vector<BufferId>& buffer_of,
               Schedule& plan)
      : flow_(flow), step_of_(step_of), plan_(plan), written_(plan.steps.size() + 1) {
    for (std::size_t s = 0; s < flow.slots.size(); ++s)
      if (const int t = at(step_of, flow.slots[s].id); t >= 0 && buffer_of[s] != kNoBuffer)
        at(written_, t).push_back(buffer_of[s]);
    for (std::size_t t = 0; t < plan.steps.size(); ++t)
      if (plan.steps[t].scratch != kNoBuffer) written_[t].push_back(plan.steps[t].scratch);
  }

  void run() {
    for (SharedGather& gather : plan_.shared_gathers)
      if (gather.assembled) claim(gather);
    for (const SharedGather& gather : plan_.shared_gathers) {
      publish(gather);
      release(gather);
    }
  }

 private:
  // If the slice's lifetime begins at the gather, the slice is free when all members have completed the last step that
  // used its memory. If it begins one step earlier, the slice is claimed in that step, after waiting for readers of
  // other groups.
  void claim(SharedGather& gather) {
    const Buffer& slice = at(plan_.buffers, gather.operand);
    int last_use = -1;
    for (const Buffer& other : plan_.buffers)
      if (overlap(other, slice) && other.last < slice.first) last_use = std::max(last_use, other.last);
    if (last_use < 0) return;
    const bool at_once = slice.first == gather.written;
    gather.claimed = at_once ? last_use : last_use + 1;
    at(written_, at_once ? gather.written : gather.claimed).push_back(gather.operand);
    add(at(plan_.steps, gather.written).awaits, {gather.id, gather.claimed});
  }

  void publish(const SharedGather& gather) {
    int reader = at(step_of_, gather.id);
    if (gather.assembled) {
      const auto& readers = at(flow_.consumers, at(flow_.first_slot, gather.id) + gather.leaf);
      if (readers.empty()) return;
      reader = isize(plan_.steps);
      for (const Id id : readers) reader = std::min(reader, at(step_of_, id));
    }
    if (gather.written >= 0) add(at(plan_.steps, reader).awaits, {gather.id, gather.written});
  }

  void release(const SharedGather& gather) {
    const auto harms = [&](const std::vector<BufferId>& written) {
      return std::any_of(written.begin(), written.end(), [&](BufferId buffer) {
        return buffer == gather.operand || overlap(at(plan_.buffers, buffer), at(plan_.buffers, gather.operand));
      });
    };
    auto t = static_cast<std::size_t>(gather.last_read) + 1;
    while (t < plan_.steps.size() && !harms(written_[t])) ++t;
    if (t < plan_.steps.size()) add(plan_.steps[t].awaits, {gather.id, gather.last_read});
    add(plan_.end_awaits, {gather.id, gather.last_read});  // afterwards, others use the parameters and the arena
  }

  static void add(std::vector<Await>& awaits, const Await& one) {
    for (Await& other : awaits)
      if (other.gather == one.gather) {
        other.step = std::max(other.step, one.step);
        return;
      }
    awaits.push_back(one);
  }

  const Flow& flow_;
  const std::vector<int>& step_of_;
  Schedule& plan_;
  std::vector<std::vector<BufferId>> written_;  // per step: the buffers that it writes or claims for peers
};

}  // namespace

void add_awaits(const Flow& flow, const std::vector<int>& step_of, const std::vector<BufferId>& buffer_of,
                Schedule& plan) {
  AwaitPlanner(flow, step_of, buffer_of, plan).run();
}

}  // namespace tessera::schedule
