// SPDX-License-Identifier: Apache-2.0
#include "overlap.h"

#include <algorithm>

#include "scratch.h"
#include "shared_gathers.h"
#include "tessera/ops/collectives.h"

namespace tessera::schedule {
namespace {

class Prefetcher {
 public:
  Prefetcher(const Flow& flow, std::vector<std::vector<Id>> steps, const std::vector<bool>& is_overlapped)
      : flow_(flow), is_overlapped_(is_overlapped), steps_(std::move(steps)) {
    number();
  }

  std::vector<std::vector<Id>> run() {
    for (int t = 0; t < isize(steps_); ++t)
      if (is_gather(t) && first_reader(at(steps_, t).front()) < 0) start_first(t);
    for (int t = isize(steps_); t-- > 0;)
      if (stores_reduction(t)) rotate_back(t);
    int reader_before = -1;  // the first step that reads the previous all-gather
    for (int t = 0; t < isize(steps_); ++t) {
      if (!is_gather(t)) continue;
      const Id first = first_reader(at(steps_, t).front());
      if (reader_before >= 0 && reader_before < t) move(t, reader_before);
      reader_before = first < 0 ? -1 : at(step_of_, first);
    }
    return std::move(steps_);
  }

 private:
  // Whether the step is an overlapped all-gather.
  [[nodiscard]] bool is_gather(int t) const {
    const Id id = at(steps_, t).front();
    return at(is_overlapped_, id) && (*flow_.computation)[id].op->collective == CollectiveKind::kAllGather;
  }

  // Moves an all-gather that only the next round of a loop reads to the beginning, with the steps on which it depends.
  // These must not write more bytes than the all-gather, because their results are then in memory for longer.
  void start_first(int t) {
    std::vector<bool> moves(steps_.size(), false);
    moves[static_cast<std::size_t>(t)] = true;
    Checked bytes = 0;
    for (int s = t; s >= 0; --s) {
      if (!at(moves, s)) continue;
      if (s != t) bytes += bytes_of(s);
      for (const int before : needed_steps(s)) moves[static_cast<std::size_t>(before)] = true;
    }
    if (bytes.value_or_most() > bytes_of(t).value_or_most()) return;
    std::vector<std::vector<Id>> sorted;
    for (const bool first : {true, false})
      for (int s = 0; s < isize(steps_); ++s)
        if (at(moves, s) == first) sorted.push_back(std::move(at(steps_, s)));
    steps_ = std::move(sorted);
    number();
  }
  [[nodiscard]] Checked bytes_of(int t) const {
    Checked bytes = 0;
    for (const Id id : at(steps_, t)) bytes += (*flow_.computation)[id].type.byte_size();
    return bytes;
  }

  // Whether the step stores the result of an overlapped reduction in a result that nothing reads before the end, such as
  // a row of a loop's state. At the end of the steps, it does not have to wait.
  [[nodiscard]] bool stores_reduction(int t) const {
    const Id id = at(steps_, t).front();
    const Instruction& instruction = (*flow_.computation)[id];
    const bool fits = at(steps_, t).size() == 1 && instruction.op->updates_operand_in_place &&
                      instruction.called.empty() && first_reader(id) < 0 && !is_awaited(id);
    if (!fits) return false;
    const auto& reads = at(flow_.reads, id);
    return std::any_of(reads.begin(), reads.end(), [&](int slot) {
      const Id maker = at(flow_.slots, slot).id;
      return at(is_overlapped_, maker) && (*flow_.computation)[maker].op->collective != CollectiveKind::kAllGather;
    });
  }
  // Whether a control edge makes another step wait for the instruction.
  [[nodiscard]] bool is_awaited(Id id) const {
    return std::any_of(flow_.waits.begin(), flow_.waits.end(), [&](const std::vector<Id>& waits) {
      return std::find(waits.begin(), waits.end(), id) != waits.end();
    });
  }
  void rotate_back(int t) {
    std::rotate(steps_.begin() + t, steps_.begin() + t + 1, steps_.end());
    number();
  }

  void number() {
    step_of_.assign(flow_.computation->instructions.size(), -1);
    for (int t = 0; t < isize(steps_); ++t)
      for (const Id id : at(steps_, t)) at(step_of_, id) = t;
  }
  [[nodiscard]] Id first_reader(Id id) const {
    Id first = -1;
    const auto [begin, end] = flow_.slot_range(id);
    for (int s = begin; s < end; ++s)
      for (const Id reader : at(flow_.consumers, s))
        if (first < 0 || at(step_of_, reader) < at(step_of_, first)) first = reader;
    return first;
  }
  // The other steps on which step t depends directly.
  [[nodiscard]] std::vector<int> needed_steps(int t) const {
    std::vector<int> out;
    const auto add = [&](Id maker) {
      const int made = at(step_of_, maker);
      if (made >= 0 && made != t) out.push_back(made);
    };
    for (const Id id : at(steps_, t)) {
      for (const int slot : at(flow_.reads, id)) add(at(flow_.slots, slot).id);
      for (const Id before : at(flow_.waits, id)) add(before);
    }
    return out;
  }
  // The last step on which step t depends; -1 if there is none.
  [[nodiscard]] int needs(int t) const {
    const std::vector<int> steps = needed_steps(t);
    return steps.empty() ? -1 : *std::max_element(steps.begin(), steps.end());
  }
  // Moves step t before `target`, together with the step that computes its operand if t depends on nothing else after
  // `target`.
  void move(int t, int target) {
    const int maker = needs(t);
    if (maker >= target) {
      if (needs(maker) >= target || at(is_overlapped_, at(steps_, maker).front())) return;
      rotate(maker, target);
      ++target;
      if (needs(t) >= target) return;
    }
    rotate(t, target);
  }
  void rotate(int from, int to) {
    std::rotate(steps_.begin() + to, steps_.begin() + from, steps_.begin() + from + 1);
    number();
  }

  const Flow& flow_;
  const std::vector<bool>& is_overlapped_;
  std::vector<std::vector<Id>> steps_;
  std::vector<int> step_of_;
};

// Whether the runtime can run the collective in parallel with other steps.
bool may_overlap(CollectiveKind kind) {
  return kind == CollectiveKind::kAllGather || kind == CollectiveKind::kReduceScatter ||
         kind == CollectiveKind::kAllReduce;
}

}  // namespace

std::vector<bool> overlapped(const Flow& flow, const ScheduleOptions& options) {
  std::vector<bool> out(flow.computation->instructions.size(), false);
  if (!options.overlap) return out;
  for (Id id = 0; id < flow.computation->size(); ++id) {
    const Instruction& instruction = (*flow.computation)[id];
    if (!at(flow.in_memory, id) || !may_overlap(instruction.op->collective)) continue;
    const OpView& view = at(flow.views, id);
    const auto& attributes = view.as<CollectiveAttributes>();
    const std::int64_t dim = attributes.dimensions.empty() ? 0 : attributes.dimensions.front();
    Checked bytes = view.result.byte_size();
    for (const Type& type : view.operands) bytes += type.byte_size();
    at(out, id) = bytes.value_or_most() <= options.overlapped_bytes && !stays_on_nodes(attributes, options.nodes) &&
                  std::all_of(view.operands.begin(), view.operands.end(),
                              [&](const Type& type) { return parts_are_contiguous(type.dims(), dim); });
  }
  return out;
}

std::vector<std::vector<Id>> prefetch(const Flow& flow, std::vector<std::vector<Id>> steps,
                                      const std::vector<bool>& is_overlapped) {
  if (std::find(is_overlapped.begin(), is_overlapped.end(), true) == is_overlapped.end()) return steps;
  return Prefetcher(flow, std::move(steps), is_overlapped).run();
}

bool overlaps(const Schedule& schedule) {
  return std::any_of(schedule.steps.begin(), schedule.steps.end(), [](const Step& step) { return step.overlapped; }) ||
         std::any_of(schedule.nested.begin(), schedule.nested.end(), [](const std::vector<NestedSchedule>& called) {
           return std::any_of(called.begin(), called.end(),
                              [](const NestedSchedule& nested) { return overlaps(*nested.schedule); });
         });
}

}  // namespace tessera::schedule

namespace tessera {

std::shared_ptr<const Schedule> make_schedule(const Program& program, const ScheduleOptions& options) {
  auto out = schedule::plan_once(program, options);
  if (!schedule::overlaps(*out) || options.overlap_memory == std::numeric_limits<std::int64_t>::max()) return out;
  ScheduleOptions fewer = options;
  fewer.overlap = false;
  const std::int64_t most = schedule::plan_once(program, fewer)->arena_bytes + options.overlap_memory;
  fewer.overlap = true;
  fewer.overlapped_bytes = std::min(options.overlapped_bytes, out->arena_bytes);
  while (out->arena_bytes > most && fewer.overlapped_bytes > 0) {
    fewer.overlapped_bytes /= 2;
    out = schedule::plan_once(program, fewer);
  }
  return out;
}

}  // namespace tessera
