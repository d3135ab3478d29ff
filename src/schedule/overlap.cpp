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
    int reader_before = -1;  // the first step that reads the previous all-gather
    for (int t = 0; t < isize(steps_); ++t) {
      const Id id = at(steps_, t).front();
      if (!at(is_overlapped_, id) ||
          flow_.computation->instructions[static_cast<std::size_t>(id)].op->collective != CollectiveKind::kAllGather)
        continue;
      const Id first = first_reader(id);
      if (reader_before >= 0 && reader_before < t) move(t, reader_before);
      reader_before = first < 0 ? -1 : at(step_of_, first);
    }
    return std::move(steps_);
  }

 private:
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
  // The last step on which step t depends; -1 if there is none.
  [[nodiscard]] int needs(int t) const {
    int last = -1;
    for (const Id id : at(steps_, t)) {
      for (const int slot : at(flow_.reads, id)) {
        const int made = at(step_of_, at(flow_.slots, slot).id);
        if (made != t) last = std::max(last, made);
      }
      for (const Id before : at(flow_.waits, id)) last = std::max(last, at(step_of_, before));
    }
    return last;
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

}  // namespace tessera::schedule

namespace tessera {

std::shared_ptr<const Schedule> make_schedule(const Program& program, const ScheduleOptions& options) {
  auto out = schedule::plan_once(program, options);
  const bool overlaps =
      std::any_of(out->steps.begin(), out->steps.end(), [](const Step& step) { return step.overlapped; });
  if (!overlaps || options.overlap_memory == std::numeric_limits<std::int64_t>::max()) return out;
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
