// SPDX-License-Identifier: Apache-2.0
// Runs a schedule on shadows: which value each buffer holds, instead of data.
#include <algorithm>

#include "flow.h"

namespace tessera {
namespace {

using schedule::Flow;
using schedule::OpKind;

class Shadow {
 public:
  Shadow(const Program& program, const Schedule& plan)
      : plan_(plan),
        computation_(program[plan.computation]),
        flow_(schedule::analyze_flow(program, computation_, plan.options)) {
    holds_.assign(plan.buffers.size(), -1);
  }

  void run() {
    check_bounds();
    for (Id id = 0; id < computation_.size(); ++id)
      if (at(flow_.kinds, id) == OpKind::kParameter || at(flow_.kinds, id) == OpKind::kConstant) write(id);
    for (const Step& step : plan_.steps) {
      for (const Id id : step.instructions) {
        for (const Id operand : computation_[id].operands) read(id, operand, step);
      }
      if (step.scratch != kNoBuffer) overwrite(step.scratch, -1);
      for (const Id id : step.instructions) write(id);
    }
    const auto [first, last] = flow_.slot_range(computation_.root);
    for (int s = first; s < last; ++s) check_holds(at(flow_.slots, s), "the root");
  }

 private:
  // Origins by the schedule's own access: the identity of data is (instruction, leaf) of whoever wrote the buffer.
  void write(Id id) {
    for (int leaf = 0; leaf < isize(at(plan_.access, id)); ++leaf) {
      const Access& access = at(at(plan_.access, id), leaf);
      if (access.buffer != kNoBuffer) overwrite(access.buffer, at(flow_.first_slot, id) + leaf);
    }
  }
  void overwrite(BufferId buffer, int value) {
    const Buffer& target = at(plan_.buffers, buffer);
    if (target.place == Place::kArena)
      for (std::size_t b = 0; b < holds_.size(); ++b) {
        const Buffer& other = plan_.buffers[b];
        if (other.place == Place::kArena && target.offset < other.offset + other.bytes &&
            other.offset < target.offset + target.bytes)
          holds_[b] = -1;
      }
    at(holds_, buffer) = value;
  }
  void read(Id reader, Id operand, const Step& step) const {
    const auto [first, last] = flow_.slot_range(operand);
    for (int s = first; s < last; ++s) {
      const Slot& slot = at(flow_.slots, s);
      const Id source = at(flow_.slots, slot.origin).id;
      const bool inside = step.instructions.size() > 1 && std::find(step.instructions.begin(), step.instructions.end(),
                                                                    source) != step.instructions.end();
      if (!inside && !flow_.is_remade(slot.origin)) check_holds(slot, computation_[reader].name);
    }
  }
  using Slot = schedule::Slot;
  void check_holds(const Slot& slot, const std::string& reader) const {
    const BufferId buffer = at(at(plan_.access, slot.id), slot.leaf).buffer;
    if (!slot.type.is_array()) return;
    ensure(buffer != kNoBuffer, "schedule: %{} reads %{}, which is in no buffer", reader, computation_[slot.id].name);
    ensure(at(holds_, buffer) == slot.origin, "schedule: %{} reads %{}, whose buffer holds another value", reader,
           computation_[slot.id].name);
  }
  void check_bounds() const {
    for (const Buffer& buffer : plan_.buffers)
      if (buffer.place == Place::kArena)
        ensure(buffer.offset >= 0 && buffer.offset % kBufferAlignment == 0 &&
                   buffer.offset + buffer.bytes <= plan_.arena_bytes,
               "schedule: a buffer at {} of {} bytes is not within the arena of {}", buffer.offset, buffer.bytes,
               plan_.arena_bytes);
  }

  const Schedule& plan_;
  const Computation& computation_;
  const Flow flow_;
  std::vector<int> holds_;  // per buffer: the origin slot it holds
};

}  // namespace

void verify_schedule(const Program& program, const Schedule& plan) {
  Shadow(program, plan).run();
  for (const auto& nested : plan.nested)
    for (const auto& one : nested) verify_schedule(program, *one.schedule);
}

}  // namespace tessera
