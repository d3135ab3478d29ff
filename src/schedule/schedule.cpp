// SPDX-License-Identifier: Apache-2.0
#include "tessera/schedule/schedule.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "groups.h"
#include "loops/rows.h"
#include "memory_plan.h"
#include "order.h"
#include "overlap.h"
#include "overwrites.h"
#include "scratch.h"
#include "shared_gathers.h"

namespace tessera {
namespace schedule {
namespace {

using Memo = std::map<std::pair<ComputationId, bool>, std::shared_ptr<const Schedule>>;

class SchedulePlanner {
 public:
  SchedulePlanner(const Program& program, ComputationId id, bool in_place, const ScheduleOptions& options, Memo& memo)
      : program_(program),
        computation_(program[id]),
        flow_(analyze_flow(program, computation_, options)),
        in_place_(in_place),
        options_(options),
        memo_(memo) {
    out_.computation = id;
    out_.options = options;
  }

  Schedule run() {
    choose_targets();
    auto groups = group_steps(flow_, order_of(flow_, options_.reorder), options_.fuse);
    if (options_.reorder) groups = readers_first(flow_, std::move(groups), wanted_overwrites());
    is_overlapped_ = overlapped(flow_, options_);
    groups = prefetch(flow_, std::move(groups), is_overlapped_);
    for (const auto& group : groups)
      out_.steps.push_back({group,
                            at(flow_.kinds, group.front()) == OpKind::kElementwise ||
                                (group.size() > 1 && columns_of(at(flow_.views, group.front())) > 0),
                            kNoBuffer});
    end_ = isize(out_.steps);
    number_steps();
    add_outside_buffers();
    aim_at_results();
    plan_nested();
    if (options_.look_through_views) out_.unwritten = unread_stacks(flow_);
    for (int t = 0; t < end_; ++t) plan_step(t);
    deliver();
    place_in_memory(out_);
    if (!out_.shared_gathers.empty()) add_awaits(flow_, step_of_, buffer_of_, out_);
    fill_access();
    return std::move(out_);
  }

 private:
  void number_steps() {
    step_of_.assign(computation_.instructions.size(), -1);
    for (int t = 0; t < end_; ++t)
      for (const Id id : at(out_.steps, t).instructions) at(step_of_, id) = t;
    last_read_.assign(flow_.slots.size(), -1);
    for (std::size_t s = 0; s < flow_.slots.size(); ++s) {
      for (const Id reader : flow_.consumers[s]) last_read_[s] = std::max(last_read_[s], at(step_of_, reader));
      if (flow_.is_result[s]) last_read_[s] = end_;
    }
    done_at_.assign(static_cast<std::size_t>(end_), -1);
    for (int t = 0; t < end_ && !is_overlapped_.empty(); ++t)
      if (at(is_overlapped_, at(out_.steps, t).instructions.front())) overlap(t);
    if (out_.computation == program_.entry) shared_ = shared_leaves(flow_, options_.nodes);
    peers_read_.assign(flow_.slots.size(), -1);
    for (std::size_t s = 0; s < shared_.of_slot.size(); ++s) {
      const auto& [storage, operand, slice] = shared_.of_slot[s];
      if (storage != SharedLeaf::Storage::kInPlace) continue;
      at(peers_read_, operand) = std::max({at(peers_read_, operand), last_read_[s], at(step_of_, flow_.slots[s].id)});
      at(last_read_, operand) = std::max(at(last_read_, operand), at(peers_read_, operand));
    }
    buffer_of_.assign(flow_.slots.size(), kNoBuffer);
    if (in_place_ && options_.look_through_views) plan_rows();
  }

  void plan_rows() {
    std::vector<int> results;
    const auto [first, last] = flow_.slot_range(computation_.root);
    for (int s = first; s < last; ++s) results.push_back(s);
    for (const Row& row : find_rows(flow_, step_of_, parameter_slots_, results)) rows_.emplace(row.slot, row);
  }
  // The value is a row of a stack.
  void give_row(const Row& row, std::int64_t bytes, int t, int until) {
    const BufferId stack = at(buffer_of_, row.stack);
    at(buffer_of_, row.slot) = isize(out_.buffers);
    out_.rows.push_back(
        {isize(out_.buffers), stack, at(buffer_of_, row.index), row.step, row.stride, row.last, row.access});
    out_.buffers.push_back({Place::kRow, bytes, 0, stack, t, until});
  }

  // A collective is complete when its first reader begins; until then its operands must not change.
  void overlap(int t) {
    const Id id = at(out_.steps, t).instructions.front();
    int& done = at(done_at_, t);
    done = end_;
    const auto [first, last] = flow_.slot_range(id);
    for (int s = first; s < last; ++s)
      for (const Id reader : at(flow_.consumers, s)) done = std::min(done, at(step_of_, reader));
    for (const int operand : at(flow_.reads, id)) at(last_read_, operand) = std::max(at(last_read_, operand), done);
    for (int s = first; s < last; ++s)
      at(last_read_, s) = std::max(at(last_read_, s), done);  // results without readers are written too
    at(out_.steps, t).overlapped = true;
    (done < end_ ? at(out_.steps, done).completes : out_.end_completes).push_back(t);
  }

  void add_outside_buffers() {
    int leaf = 0;
    for (const Id id : computation_.parameters) {
      const auto [first, last] = flow_.slot_range(id);
      for (int s = first; s < last; ++s) {
        const std::int64_t bytes = at(flow_.slots, s).type.byte_size();
        out_.parameter_bytes = (Checked(out_.parameter_bytes) + bytes).value_or_most();
        at(buffer_of_, s) = isize(out_.buffers);
        out_.buffers.push_back({Place::kParameter, bytes, 0, leaf++, -1, at(last_read_, s)});
      }
    }
    for (Id id = 0; id < computation_.size(); ++id) {
      if (at(flow_.kinds, id) != OpKind::kConstant) continue;
      const auto [first, last] = flow_.slot_range(id);
      if (first + 1 != last || at(last_read_, first) < 0) continue;
      const std::int64_t bytes = computation_[id].type.byte_size();
      out_.constant_bytes = (Checked(out_.constant_bytes) + bytes).value_or_most();
      at(buffer_of_, first) = isize(out_.buffers);
      out_.buffers.push_back({Place::kConstant, bytes, 0, id, -1, at(last_read_, first)});
    }
  }

  // Determines the caller's buffer to which each result should be written.
  void choose_targets() {
    for (const Id id : computation_.parameters) {
      const auto [begin, end] = flow_.slot_range(id);
      for (int s = begin; s < end; ++s) parameter_slots_.push_back(s);
    }
    const auto [first, last] = flow_.slot_range(computation_.root);
    partner_.assign(static_cast<std::size_t>(last - first), -1);
    if (in_place_)
      std::iota(partner_.begin(), partner_.end(), 0);
    else if (out_.computation == program_.entry)
      partner_ = aliased_parameters(program_, flow_);
    result_leaf_.assign(flow_.slots.size(), -1);
    for (int k = isize(partner_); k-- > 0;) {  // the first leaf has priority, but leaves with a partner precede others
      int& leaf = at(result_leaf_, at(flow_.slots, first + k).origin);
      if (leaf < 0 || at(partner_, leaf) < 0 || at(partner_, k) >= 0) leaf = k;
    }
  }
  std::vector<Overwrite> wanted_overwrites() const {
    std::vector<Overwrite> out;
    for (int s = 0; s < isize(flow_.slots); ++s) {
      const int leaf = at(result_leaf_, s);
      if (leaf < 0 || at(partner_, leaf) < 0 || !at(flow_.in_memory, at(flow_.slots, s).id)) continue;
      const int parameter = at(parameter_slots_, at(partner_, leaf));
      if (!at(flow_.is_result, parameter)) out.push_back({parameter, s});
    }
    return out;
  }
  void plan_nested() {
    out_.nested.resize(computation_.instructions.size());
    for (Id id = 0; id < computation_.size(); ++id) {
      const Instruction& instruction = computation_[id];
      const Role role = instruction.op->role;
      if (role != Role::kWhile && role != Role::kCall && role != Role::kConditional) continue;
      for (int k = 0; k < isize(instruction.called); ++k) {
        const ComputationId callee = at(instruction.called, k);
        const bool in_place = role == Role::kWhile && k == 1;
        auto& memo = memo_[{callee, in_place}];
        if (!memo)
          memo = std::make_shared<Schedule>(SchedulePlanner(program_, callee, in_place, options_, memo_).run());
        out_.constant_bytes = (Checked(out_.constant_bytes) + memo->constant_bytes).value_or_most();
        at(out_.nested, id).push_back({callee, in_place, memo});
      }
    }
  }

  void plan_step(int t) {
    Step& step = at(out_.steps, t);
    for (const Id id : step.instructions) {
      const auto [first, last] = flow_.slot_range(id);
      for (int s = first; s < last; ++s)
        if (at(flow_.slots, s).origin == s && at(flow_.slots, s).type.is_array() && needs_buffer(s, step))
          give_buffer(s, t);
    }
    if (step.fused) return;
    const Id id = step.instructions.front();
    const std::int64_t scratch = scratch_bytes(at(flow_.views, id), at(out_.nested, id));
    if (scratch == 0) return;
    step.scratch = isize(out_.buffers);
    out_.buffers.push_back({Place::kArena, scratch, 0, 0, t, std::max(t, at(done_at_, t))});
  }

  bool needs_buffer(int slot, const Step& step) const {
    if (step.instructions.size() == 1 && !step.fused) return true;
    if (at(flow_.is_result, slot)) return true;
    const auto& readers = at(flow_.consumers, slot);
    return std::any_of(readers.begin(), readers.end(),
                       [&](Id reader) { return at(step_of_, reader) != at(step_of_, step.instructions.front()); });
  }

  void give_buffer(int slot, int t) {
    const std::int64_t bytes = at(flow_.slots, slot).type.byte_size();
    const int leaf = at(aim_, slot);
    const int until = std::max(at(last_read_, slot), t);
    if (const auto row = rows_.find(slot); row != rows_.end()) return give_row(row->second, bytes, t, until);
    if (share(slot, until)) return;
    if (leaf >= 0 && at(partner_, leaf) >= 0) {
      const int owner = at(parameter_slots_, at(partner_, leaf));
      const bool is_shared = at(peers_read_, owner) == t;
      if (at(last_read_, owner) < t ||
          (at(last_read_, owner) == t && !is_shared && may_overwrite(flow_, at(out_.steps, t), slot, owner)))
        return take_over(slot, at(buffer_of_, owner), until);
    }
    if (leaf >= 0 && !in_place_) {
      if (const BufferId buffer = aimed(slot, leaf, t); buffer != kNoBuffer) return take_over(slot, buffer, end_);
      at(buffer_of_, slot) = isize(out_.buffers);
      out_.buffers.push_back({Place::kResult, bytes, 0, leaf, t, end_});
      return;
    }
    for (const int candidate : candidates(slot, t)) {
      const BufferId buffer = at(buffer_of_, candidate);
      if (at(out_.buffers, buffer).place != Place::kArena || at(last_read_, candidate) != t) continue;
      if (at(peers_read_, candidate) == t) continue;
      if (!taken_.insert({buffer, t}).second) continue;
      return take_over(slot, buffer, until);
    }
    at(buffer_of_, slot) = isize(out_.buffers);
    out_.buffers.push_back({place_of(slot), bytes, 0, 0, t, until});
  }
  Place place_of(int slot) const {
    const bool is_written = at(flow_.views, at(flow_.slots, slot).id).op.file_transfer == FileTransfer::kWrite;
    return is_written && out_.computation == program_.entry ? Place::kFile : Place::kArena;
  }

  // Plans the result of an all-gather that a node stores only once.
  bool share(int slot, int until) {
    if (shared_.of_slot.empty()) return false;
    const SharedLeaf& leaf = at(shared_.of_slot, slot);
    if (leaf.storage == SharedLeaf::Storage::kNone) return false;
    return (leaf.storage == SharedLeaf::Storage::kInPlace && share_operand(slot, leaf.operand, until)) ||
           (leaf.slice_bytes > 0 && assemble(slot, leaf.slice_bytes, until));
  }
  bool share_operand(int slot, int operand, int until) {
    const BufferId from = at(buffer_of_, operand);
    if (from == kNoBuffer) return false;
    Buffer& home = at(out_.buffers, from);
    const int made = at(step_of_, at(flow_.slots, operand).id);
    if (made >= 0 && at(done_at_, made) >= 0) return false;  // its time of completion is unknown to peers
    if (home.place != Place::kParameter && home.place != Place::kArena) return false;
    home.alignment = kPageAlignment;
    const Slot& result = at(flow_.slots, slot);
    add_shared({.id = result.id, .leaf = result.leaf, .operand = from, .written = made, .last_read = until}, slot);
    return true;
  }
  // Claims the slice before the step if readers of other groups must be awaited.
  bool assemble(int slot, std::int64_t slice_bytes, int until) {
    const Slot& result = at(flow_.slots, slot);
    const int t = at(step_of_, result.id);
    const BufferId slice = isize(out_.buffers);
    const int first = shared_.one_group ? t : std::max(t - 1, 0);
    out_.buffers.push_back({Place::kArena, slice_bytes, 0, 0, first, until, kPageAlignment});
    add_shared({result.id, result.leaf, slice, kNoBuffer, t, until, true, -1}, slot);
    return true;
  }
  void add_shared(SharedGather gather, int slot) {
    gather.result = isize(out_.buffers);
    at(buffer_of_, slot) = gather.result;
    out_.shared_gathers.push_back(gather);
    out_.buffers.push_back({Place::kPeers, at(flow_.slots, slot).type.byte_size(), 0, gather.operand,
                            at(step_of_, gather.id), gather.last_read});
  }

  void take_over(int slot, BufferId buffer, int until) {
    at(buffer_of_, slot) = buffer;
    at(out_.buffers, buffer).last = until;
  }

  // A value that a result overwrites, directly or through other updates, is written to the result's buffer: a chain of
  // updates needs one buffer.
  void aim_at_results() {
    aim_ = result_leaf_;
    if (in_place_) return;
    for (int slot = 0; slot < isize(flow_.slots); ++slot) {
      const int leaf = at(result_leaf_, slot);
      if (leaf < 0 || at(partner_, leaf) >= 0) continue;
      for (int next = slot; next >= 0;) next = aim_before(next, leaf);
    }
  }
  int aim_before(int slot, int leaf) {
    const int t = at(step_of_, at(flow_.slots, slot).id);
    if (t < 0) return -1;
    for (const int before : candidates(slot, t)) {
      const Id maker = at(flow_.slots, before).id;
      const bool made = at(step_of_, maker) >= 0 && needs_buffer(before, at(out_.steps, at(step_of_, maker)));
      if (!made || at(last_read_, before) != t || at(aim_, before) >= 0) continue;
      at(aim_, before) = leaf;
      return before;
    }
    return -1;
  }
  // The result buffer that the slot should overwrite.
  BufferId aimed(int slot, int leaf, int t) const {
    for (const int before : candidates(slot, t)) {
      const BufferId buffer = at(buffer_of_, before);
      if (at(aim_, before) == leaf && buffer != kNoBuffer && at(out_.buffers, buffer).place == Place::kResult)
        return buffer;
    }
    return kNoBuffer;
  }

  // Origins that the step reads and that `slot` may overwrite.
  std::vector<int> candidates(int slot, int t) const {
    std::vector<int> found;
    for (const Id id : at(out_.steps, t).instructions)
      for (const int origin : at(flow_.reads, id))
        if (at(step_of_, at(flow_.slots, origin).id) != t && may_overwrite(flow_, at(out_.steps, t), slot, origin))
          found.push_back(origin);
    return found;
  }

  void deliver() {
    const auto [first, last] = flow_.slot_range(computation_.root);
    for (int k = 0; k < last - first; ++k) {
      const int origin = at(flow_.slots, first + k).origin;
      const BufferId buffer = at(buffer_of_, origin);
      Result result;
      const std::int64_t bytes = at(flow_.slots, first + k).type.byte_size();
      if (buffer != kNoBuffer) {
        const Buffer& home = at(out_.buffers, buffer);
        if (home.place == Place::kParameter && at(partner_, k) == home.index) {
          result.delivery = Delivery::kInPlace;
          result.parameter_leaf = home.index;
        } else if (home.place != Place::kResult || home.index != k) {
          result.delivery = Delivery::kCopy;
          result.source.buffer = buffer;
          if (in_place_ && home.place == Place::kParameter) {
            result.staging = isize(out_.buffers);
            out_.buffers.push_back({Place::kArena, bytes, 0, 0, end_, end_});
          }
        }
      }
      if (result.delivery != Delivery::kInPlace)
        out_.result_bytes = (Checked(out_.result_bytes) + bytes).value_or_most();
      out_.results.push_back(std::move(result));
    }
  }

  void fill_access() {
    out_.access.resize(computation_.instructions.size());
    for (const Slot& slot : flow_.slots) {
      const Slot& origin = at(flow_.slots, slot.origin);
      at(out_.access, slot.id).push_back({at(buffer_of_, slot.origin), slot.view, origin.id, origin.leaf});
    }
  }

  const Program& program_;
  const Computation& computation_;
  const Flow flow_;
  const bool in_place_;
  const ScheduleOptions& options_;
  Memo& memo_;
  Schedule out_;
  int end_ = 0;
  std::vector<bool> is_overlapped_;  // per instruction; empty if there are none
  std::vector<int> done_at_;         // per step: the step before which it completes, if it is overlapped
  std::vector<int> step_of_;
  std::vector<int> last_read_;                // per origin slot; end_ for results
  std::vector<BufferId> buffer_of_;           // per origin slot
  std::map<int, Row> rows_;                   // of a loop body, by origin slot
  SharedLeaves shared_;                       // the all-gathers that a node stores once
  std::vector<int> peers_read_;               // per origin slot: the last step at which peers read it in place
  std::vector<int> parameter_slots_;          // per parameter leaf
  std::vector<int> partner_;                  // per result leaf: the parameter leaf whose buffer it should take
  std::vector<int> result_leaf_;              // per origin slot: the result leaf for which it is written
  std::vector<int> aim_;                      // the same, also for values that a result overwrites
  std::set<std::pair<BufferId, int>> taken_;  // overwritten in a step
};

}  // namespace

std::shared_ptr<const Schedule> plan_once(const Program& program, const ScheduleOptions& options) {
  Memo memo;
  return std::make_shared<Schedule>(SchedulePlanner(program, program.entry, false, options, memo).run());
}

}  // namespace schedule

std::int64_t peak_bytes(const Program& program) { return make_schedule(program)->peak_bytes(); }

}  // namespace tessera
