// SPDX-License-Identifier: Apache-2.0
// Executes a schedule symbolically: it tracks which value each buffer holds instead of data.
#include <algorithm>
#include <map>
#include <set>

#include "flow.h"
#include "shared_gathers.h"

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
    written_at_.assign(plan.buffers.size(), -1);
    claimed_.assign(plan.shared_gathers.size(), false);
  }

  void run() {
    check_bounds();
    for (Id id = 0; id < computation_.size(); ++id)
      if (at(flow_.kinds, id) == OpKind::kParameter || at(flow_.kinds, id) == OpKind::kConstant) write(id);
    claim_slices();
    for (const Step& step : plan_.steps) {
      ++now_;
      for (const Await& await : step.awaits) learn(await);
      for (const int done : step.completes) in_flight_.erase(done);
      for (const Id id : step.instructions) {
        for (const Id operand : computation_[id].operands) read(id, operand, step);
      }
      if (step.scratch != kNoBuffer) overwrite(step.scratch, -1);
      for (const Id id : step.instructions) write(id);
      if (step.overlapped) in_flight_.insert(now_);
      claim_slices();
    }
    for (const int done : plan_.end_completes) in_flight_.erase(done);
    ensure(in_flight_.empty(), "schedule: a collective is never waited for");
    ++now_;
    for (const Await& await : plan_.end_awaits) learn(await);
    for (const SharedGather& gather : plan_.shared_gathers) check_released(gather);
    const auto [first, last] = flow_.slot_range(computation_.root);
    for (int s = first; s < last; ++s) check_holds(at(flow_.slots, s), "the root");
  }

 private:
  // Uses the origins in the schedule's accesses: data is identified by the (instruction, leaf) that wrote the buffer.
  void write(Id id) {
    for (int leaf = 0; leaf < isize(at(plan_.access, id)); ++leaf) {
      const Access& access = at(at(plan_.access, id), leaf);
      const int slot = at(flow_.first_slot, id) + leaf;  // a loop does not write the leaves that it passes on
      const bool is_written = at(flow_.slots, slot).origin == slot || at(flow_.kinds, id) != OpKind::kPlain;
      if (access.buffer != kNoBuffer && is_written) overwrite(access.buffer, slot);
    }
  }
  void overwrite(BufferId buffer, int value) {
    const Buffer& target = at(plan_.buffers, buffer);
    ensure(target.place != Place::kPeers || is_result_of_gather(buffer, value), "schedule: memory of peers is written");
    for (const SharedGather& gather : plan_.shared_gathers)
      if (now_ > peers_from(gather) && touches(buffer, gather.operand)) check_released(gather);
    if (target.place == Place::kPeers) fill_slice(buffer, value);
    for (const int step : in_flight_)
      ensure(!is_used_by(at(plan_.steps, step), buffer), "schedule: memory of a collective under way is written");
    at(written_at_, buffer) = now_;
    forget(buffer);
    at(holds_, buffer) = value;
  }
  // Forgets the values of all buffers that overlap in the arena.
  void forget(BufferId buffer) {
    for (std::size_t b = 0; b < holds_.size(); ++b)
      if (schedule::overlap(at(plan_.buffers, buffer), plan_.buffers[b])) holds_[b] = -1;
  }
  void read(Id reader, Id operand, const Step& step) const {
    const auto [first, last] = flow_.slot_range(operand);
    for (int s = first; s < last; ++s) {
      const Slot& slot = at(flow_.slots, s);
      const Id source = at(flow_.slots, slot.origin).id;
      const bool inside = step.instructions.size() > 1 && std::find(step.instructions.begin(), step.instructions.end(),
                                                                    source) != step.instructions.end();
      if (!inside && !flow_.is_recomputed(slot.origin)) check_holds(slot, computation_[reader].name);
    }
  }
  using Slot = schedule::Slot;
  void check_holds(const Slot& slot, const std::string& reader) const {
    const BufferId buffer = at(at(plan_.access, slot.id), slot.leaf).buffer;
    if (!slot.type.is_array()) return;
    check_done(slot, reader);
    if (buffer != kNoBuffer && at(plan_.buffers, buffer).place == Place::kPeers) check_published(buffer);
    ensure(buffer != kNoBuffer, "schedule: %{} reads %{}, which is in no buffer", reader, computation_[slot.id].name);
    ensure(at(holds_, buffer) == slot.origin, "schedule: %{} reads %{}, whose buffer holds another value", reader,
           computation_[slot.id].name);
  }

  // A started collective uses its operands, results and scratch memory until it is awaited.
  [[nodiscard]] bool is_used_by(const Step& step, BufferId buffer) const {
    const Id id = step.instructions.front();
    const auto uses = [&](Id value) {
      const auto& accesses = at(plan_.access, value);
      return std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
        return access.buffer != kNoBuffer && touches(access.buffer, buffer);
      });
    };
    const auto& operands = computation_[id].operands;
    return uses(id) || std::any_of(operands.begin(), operands.end(), uses) ||
           (step.scratch != kNoBuffer && touches(step.scratch, buffer));
  }
  void check_done(const Slot& slot, const std::string& reader) const {
    const Id source = at(flow_.slots, slot.origin).id;
    for (const int step : in_flight_)
      ensure(at(plan_.steps, step).instructions.front() != source, "schedule: %{} reads %{}, which is under way",
             reader, computation_[source].name);
  }

  // Records what is known about peers' progress. Ranks run the same steps, but only awaits limit the distance between
  // them.
  void learn(const Await& await) {
    ensure(await.step < now_, "schedule: a wait for a step that has not begun");
    int& step = completed_.try_emplace(await.gather, -1).first->second;
    step = std::max(step, await.step);
  }
  [[nodiscard]] int completed(const SharedGather& gather) const {
    const auto found = completed_.find(gather.id);
    return found == completed_.end() ? -1 : found->second;
  }
  [[nodiscard]] bool touches(BufferId a, BufferId b) const {
    const Buffer& one = at(plan_.buffers, a);
    const Buffer& other = at(plan_.buffers, b);
    return a == b || schedule::overlap(one, other);
  }
  [[nodiscard]] bool is_result_of_gather(BufferId buffer, int value) const {
    return std::any_of(plan_.shared_gathers.begin(), plan_.shared_gathers.end(), [&](const SharedGather& gather) {
      return gather.result == buffer && at(flow_.first_slot, gather.id) + gather.leaf == value;
    });
  }
  void check_published(BufferId result) const {
    for (const SharedGather& gather : plan_.shared_gathers) {
      if (gather.result != result) continue;
      const Instruction& instruction = computation_[gather.id];
      const Slot& operand = flow_.slot(at(instruction.operands, gather.leaf));
      const int value = gather.assembled ? at(flow_.first_slot, gather.id) + gather.leaf : operand.origin;
      ensure(completed(gather) >= gather.written, "schedule: %{} is read before peers have written", instruction.name);
      ensure(now_ <= gather.last_read, "schedule: %{} is read after its release", instruction.name);
      ensure(at(holds_, gather.operand) == value && at(written_at_, gather.operand) == gather.written,
             "schedule: %{} reads operands that are gone", instruction.name);
      const Buffer& home = at(plan_.buffers, gather.operand);
      ensure(home.bytes % kPageAlignment == 0 && home.offset % kPageAlignment == 0,
             "schedule: the operand of %{} is not made of pages", instruction.name);
      const std::int64_t result_bytes = at(plan_.buffers, result).bytes;
      ensure(home.bytes * (result_bytes / operand.type.byte_size()) >= result_bytes,
             "schedule: the slices of %{} do not hold it", instruction.name);
    }
  }

  // The step after which peers use the memory of a gather's operand or slice.
  [[nodiscard]] static int peers_from(const SharedGather& gather) {
    return gather.assembled ? gather.claimed : gather.written;
  }
  // When all members have completed the step that was just run, they may write to the slices of all members.
  void claim_slices() {
    for (std::size_t k = 0; k < claimed_.size(); ++k)
      if (const SharedGather& gather = plan_.shared_gathers[k]; gather.assembled && gather.claimed == now_) {
        check_free(gather);
        forget(gather.operand);
        claimed_[k] = true;
      }
  }
  // Checks that the memory of a slice is unused: by this rank, and by peers that read previous contents. Members of the
  // same groups have completed their steps when they claim; for others, this rank needs an await.
  void check_free(const SharedGather& gather) const {
    const auto fits = [&](bool holds) {
      ensure(holds, "schedule: the slice of %{} is claimed while it is in use", computation_[gather.id].name);
    };
    for (std::size_t k = 0; k < claimed_.size(); ++k) {
      const SharedGather& other = plan_.shared_gathers[k];
      if (&other == &gather || !touches(other.operand, gather.operand)) continue;
      if (other.assembled ? !at(claimed_, k) : now_ < other.written) continue;  // later than this one
      const bool known =
          gather.claimed >= other.last_read && schedule::same_groups(computation_[other.id], computation_[gather.id]);
      fits(known || completed(other) >= other.last_read);
    }
    for (const int step : in_flight_) fits(!is_used_by(at(plan_.steps, step), gather.operand));
  }
  // The gather's step writes its result to the slices.
  void fill_slice(BufferId result, int value) {
    for (const SharedGather& gather : plan_.shared_gathers) {
      if (gather.result != result || !gather.assembled) continue;
      ensure(now_ == gather.written && gather.claimed < now_ && completed(gather) >= gather.claimed,
             "schedule: %{} is written to slices that are not free", computation_[gather.id].name);
      at(holds_, gather.operand) = value;
      at(written_at_, gather.operand) = now_;
    }
  }
  void check_released(const SharedGather& gather) const {
    ensure(completed(gather) >= gather.last_read, "schedule: the operand of %{} is written while peers may read it",
           computation_[gather.id].name);
  }
  void check_bounds() const {
    for (const Buffer& buffer : plan_.buffers) {
      if (buffer.place != Place::kArena && buffer.place != Place::kFile) continue;
      const std::int64_t most = buffer.place == Place::kArena ? plan_.arena_bytes : plan_.file_bytes;
      ensure(buffer.offset >= 0 && buffer.offset % kBufferAlignment == 0 && buffer.offset + buffer.bytes <= most,
             "schedule: a buffer at {} of {} bytes is not within the {} bytes of the arena or the file", buffer.offset,
             buffer.bytes, most);
    }
  }

  const Schedule& plan_;
  const Computation& computation_;
  const Flow flow_;
  std::vector<int> holds_;       // per buffer: the origin slot that it holds
  std::vector<int> written_at_;  // per buffer: the last step that wrote it
  std::map<Id, int> completed_;  // per shared all-gather: the step that its group is known to have completed
  std::vector<bool> claimed_;    // per shared all-gather: whether peers may write to this rank's slice
  std::set<int> in_flight_;      // overlapped steps
  int now_ = -1;
};

}  // namespace

void verify_schedule(const Program& program, const Schedule& plan) {
  Shadow(program, plan).run();
  for (const auto& nested : plan.nested)
    for (const auto& one : nested) verify_schedule(program, *one.schedule);
}

}  // namespace tessera
