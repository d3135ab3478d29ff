// SPDX-License-Identifier: Apache-2.0
#include "executable/plan.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <set>

#include "fusion/fused_kernel.h"
#include "tessera/base/timeline.h"
#include "tessera/ops/structural.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {
namespace {

void copy_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class KernelStep final : public PlanStep {
 public:
  KernelStep(KernelRef kernel, std::vector<BufferId> in, std::vector<BufferId> out)
      : kernel_(std::move(kernel)),
        in_(std::move(in)),
        out_(std::move(out)),
        in_pointers_(in_.size()),
        out_pointers_(out_.size()) {}
  void run(const Frame& frame) const override {
    for (std::size_t i = 0; i < in_.size(); ++i) in_pointers_[i] = frame[in_[i]];
    for (std::size_t i = 0; i < out_.size(); ++i) out_pointers_[i] = frame[out_[i]];
    kernel_->run({in_pointers_, out_pointers_, frame.state.workspace});
  }

 private:
  KernelRef kernel_;
  std::vector<BufferId> in_;
  std::vector<BufferId> out_;
  mutable std::vector<const std::byte*> in_pointers_;  // kept between runs; a plan runs on one thread
  mutable std::vector<std::byte*> out_pointers_;
};

class DeviceIdStep final : public PlanStep {
 public:
  DeviceIdStep(BufferId out, std::uint32_t value) : out_(out), value_(value) {}
  void run(const Frame& frame) const override { std::memcpy(frame[out_], &value_, sizeof value_); }

 private:
  BufferId out_;
  std::uint32_t value_;
};

}  // namespace

std::vector<BufferId> operand_buffers(const Schedule& schedule, const Instruction& instruction) {
  std::vector<BufferId> out;
  for (const Id operand : instruction.operands)
    for (const Access& access : at(schedule.access, operand)) out.push_back(access.buffer);
  return out;
}
std::vector<BufferId> result_buffers(const Schedule& schedule, Id id) {
  std::vector<BufferId> out;
  for (const Access& access : at(schedule.access, id)) out.push_back(access.buffer);
  return out;
}

namespace {

// Returns the total size of the buffers that a step reads or writes, each counted once.
std::int64_t bytes_touched(const Schedule& schedule, const Computation& computation, const Step& step) {
  std::set<BufferId> buffers;
  const auto touch = [&](Id id) {
    for (const Access& access : at(schedule.access, id))
      if (access.buffer != kNoBuffer) buffers.insert(access.buffer);
  };
  for (const Id id : step.instructions) {
    touch(id);
    for (const Id operand : computation[id].operands) touch(operand);
  }
  std::int64_t bytes = 0;
  for (const BufferId buffer : buffers) bytes += at(schedule.buffers, buffer).bytes;
  return bytes;
}

}  // namespace

Plan::Plan(CompileContext& context, std::shared_ptr<const Schedule> schedule) : schedule_(std::move(schedule)) {
  const TimelineSpan span("compile", "kernels");
  const Computation& computation = context.program[schedule_->computation];
  constant_of_.assign(schedule_->buffers.size(), nullptr);
  for (std::size_t b = 0; b < schedule_->buffers.size(); ++b) {
    const Buffer& buffer = schedule_->buffers[b];
    if (buffer.place != Place::kConstant) continue;
    constants_.push_back(attributes_as<ConstantAttributes>(computation[buffer.index].attributes).value);
    constant_of_[b] = constants_.back().bytes().data();
  }
  pointers_.resize(schedule_->buffers.size());
  for (const Type& leaf : computation.root_type().leaves()) result_bytes_.push_back(leaf.byte_size());
  for (const Step& step : schedule_->steps) {
    add_step(context, step);
    if (overwrites_.size() < steps_.size()) note_overwrites(step);
    step_of_.resize(steps_.size(), static_cast<std::size_t>(&step - schedule_->steps.data()));
  }
  if (!schedule_->shared_gathers.empty()) share(context.world);
  if (schedule_->computation == context.program.entry && context.world.size() > 1) name_steps(context);
}

void Plan::note_overwrites(const Step& step) {
  std::vector<std::int32_t>& leaves = overwrites_.emplace_back();
  for (const Id id : step.instructions)
    for (const Access& access : at(schedule_->access, id)) {
      if (access.buffer == kNoBuffer || access.source != id) continue;
      const Buffer& buffer = at(schedule_->buffers, access.buffer);
      if (buffer.place == Place::kParameter) leaves.push_back(buffer.index);
    }
}

void Plan::name_steps(const CompileContext& context) {
  told_ = &context.world;
  for (std::size_t i = 0; i < about_.size(); ++i)
    works_.push_back(fmt::format("runs %{} ({}), step {} of {} of {}", about_[i].name, about_[i].kind, i + 1,
                                 about_.size(),
                                 context.options.name.empty() ? context.program.name : context.options.name));
}

// Determines the arrays that the ranks of a node read from each other in place, and the waits that this requires.
void Plan::share(ProcessGroup& world) {
  world_ = &world;
  std::map<Id, std::size_t> step_here;
  for (std::size_t i = 0; i < steps_.size(); ++i)
    if (steps_[i]->gather_group() != nullptr) step_here[schedule_->steps[step_of_[i]].instructions.front()] = i;
  const auto group_of = [&](Id gather) { return steps_[step_here.at(gather)]->gather_group(); };
  std::vector<const GatherGroup*> of_gathers;
  for (const SharedGather& gather : schedule_->shared_gathers) of_gathers.push_back(group_of(gather.id));
  const auto waits_of = [&](const std::vector<Await>& awaits) {
    Waits waits;
    for (const Await& await : awaits)
      waits.push_back({group_of(await.gather)->group, await.step, step_here.at(await.gather)});
    return waits;
  };
  for (const Step& step : schedule_->steps) waits_.push_back(waits_of(step.awaits));
  waits_.push_back(waits_of(schedule_->end_awaits));
  shared_views_ = std::make_unique<SharedViews>(*schedule_, std::move(of_gathers));
}

void Plan::await(const Waits& waits, RunState& state) {
  if (waits.empty()) return;
  constexpr std::int64_t kShortest = 1000;  // ns; the peers are mostly ahead already
  std::int64_t begin = now();
  state.overlap.pause(begin);
  for (const Wait& wait : waits) {
    wait.group->await_progress(state.progress + static_cast<std::uint64_t>(wait.step) + 1);
    const std::int64_t end = now();
    taken_[wait.gather] += end - begin;
    if (end - begin >= kShortest) events_.add(wait.gather, StepEvents::Part::kWait, begin, end);
    begin = end;
  }
  state.overlap.resume(begin);
}

PendingOperations PlanStep::start(const Frame& frame) const {
  run(frame);
  return {};
}

void Plan::add_step(CompileContext& context, const Step& step) {
  const Computation& computation = context.program[schedule_->computation];
  const Id id = step.instructions.front();
  const Instruction& instruction = computation[id];
  double flops = 0;
  for (const Id member : step.instructions)
    flops += flops_of(view_of(context.program, computation, computation[member]));
  std::unique_ptr<PlanStep> made;
  KernelRef kernel;
  const Role role = instruction.op->role;
  if (step.fused) {
    FusedStep fused = make_fused_step(context.program, *schedule_, step, context.options.reference);
    context.fallbacks.insert(context.fallbacks.end(), fused.fallbacks.begin(), fused.fallbacks.end());
    context.workspace_bytes = std::max(context.workspace_bytes, fused.kernel->workspace_bytes());
    made = std::make_unique<KernelStep>(std::move(fused.kernel), std::move(fused.in), std::move(fused.out));
  } else if (role == Role::kCollective) {
    made = make_collective_step(context, *schedule_, step);
  } else if (role == Role::kWhile || role == Role::kConditional || role == Role::kCall) {
    made = make_control_step(context, *schedule_, step);
    flops = 0;  // the called computations count their own
  } else if (role == Role::kPartitionId) {
    made = std::make_unique<DeviceIdStep>(at(schedule_->access, id).front().buffer,
                                          static_cast<std::uint32_t>(context.world.rank()));
  } else if (instruction.type.byte_size() == 0 && !has_side_effect(instruction)) {
    return;  // tokens and arrays without elements
  } else if (has_no_work(id)) {
    return;
  } else if (instruction.op->file_transfer != FileTransfer::kNone) {
    made = make_file_step(context, *schedule_, step);
  } else {
    const OpView view = view_of(context.program, computation, instruction);
    OperandViews views;
    for (const Id operand : instruction.operands) {
      const auto& accesses = at(schedule_->access, operand);
      views.push_back(accesses.size() == 1 ? accesses.front().view : std::nullopt);
    }
    const bool accumulates = step.instructions.size() > 1;  // x + dot
    views.accumulates = accumulates;
    if (instruction.type.is_array()) views.result = at(schedule_->access, id).front().view;
    if (!context.options.reference) kernel = make_kernel(view, views);
    if (kernel == nullptr) {
      for (const auto& one : views) ensure(!one, "%{}: a view without a kernel that reads it", instruction.name);
      ensure(!views.result, "%{}: a layout without a kernel that writes it", instruction.name);
      kernel = make_reference_kernel(context.program, instruction, view, context.world.rank(), context.world.size());
      require(kernel != nullptr, "%{}: {} cannot be run{}", instruction.name, instruction.op->name,
              instruction.source().empty() ? "" : " (" + instruction.source() + ")");
      context.fallbacks.emplace_back(instruction.op->name);
    }
    context.workspace_bytes = std::max(context.workspace_bytes, kernel->workspace_bytes());
    std::vector<BufferId> in = operand_buffers(*schedule_, instruction);
    if (accumulates)
      for (const Id operand : computation[step.instructions.back()].operands)
        if (const Access& from = at(schedule_->access, operand).front(); from.source != id) in.push_back(from.buffer);
    made = std::make_unique<KernelStep>(std::move(kernel), std::move(in),
                                        result_buffers(*schedule_, step.instructions.back()));
  }
  steps_.push_back(std::move(made));
  const bool is_group = step.fused && step.instructions.size() > 1;
  about_.push_back({.name = instruction.name,
                    .kind = is_group ? "fused" : std::string(instruction.op->name),
                    .flops = flops,
                    .bytes = bytes_touched(*schedule_, computation, step)});
  events_.add_step(instruction, is_group);
  flops_ += flops;
}

void Plan::set_profiling(bool on) {
  profile_.clear();
  if (on) profile_ = about_;
}

void Plan::run(std::byte* arena, std::span<std::byte* const> parameters, std::span<std::byte* const> results,
               RunState& state) {
  for (std::size_t b = 0; b < pointers_.size(); ++b) {
    const Buffer& buffer = schedule_->buffers[b];
    switch (buffer.place) {
      case Place::kArena: pointers_[b] = arena + buffer.offset; break;
      case Place::kParameter: pointers_[b] = at(parameters, buffer.index); break;
      case Place::kResult: pointers_[b] = at(results, buffer.index); break;
      case Place::kFile: pointers_[b] = state.file == nullptr ? nullptr : state.file->data() + buffer.offset; break;
      case Place::kPeers:
      case Place::kRow: break;
      case Place::kConstant: pointers_[b] = const_cast<std::byte*>(constant_of_[b]); break;  // NOLINT: never written
    }
  }
  results_.assign(results.begin(), results.end());
  next_row_ = 0;
  const auto& gathers = schedule_->shared_gathers;
  for (std::size_t k = 0; k < gathers.size(); ++k) at(pointers_, gathers[k].result) = shared_views_->address(k);
  const Frame frame{pointers_, state, shared_views_.get()};
  under_way_.clear();
  taken_.assign(steps_.size(), 0);
  ended_.assign(steps_.size(), 0);
  events_.begin_run();
  run_steps(frame);
  complete(schedule_->end_completes, frame);
  state.flops += flops_;
  deliver();
  if (told_ != nullptr) told_->works_on("");
  if (world_ != nullptr) {
    world_->advance(state.progress + schedule_->steps.size());
    await(waits_.back(), state);
  }
  count_times(state);
}

void Plan::run_steps(const Frame& frame) {
  RunState& state = frame.state;
  std::size_t next = 0;  // the next step of the schedule
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    for (; next <= step_of_[i]; ++next) prepare(next, frame);
    const bool communicates = !steps_[i]->communication().empty();
    const bool is_timed = !profile_.empty() || communicates || events_.covers_all_steps();
    const bool overlaps = schedule_->steps[step_of_[i]].overlapped;
    const std::int64_t begin = is_timed ? now() : 0;
    const std::int64_t received = is_timed ? state.traffic.total() : 0;
    if (communicates) state.overlap.pause(begin);
    if (told_ != nullptr) told_->works_on(works_[i]);
    if (state.before_overwrite)
      for (const std::int32_t leaf : overwrites_[i]) state.before_overwrite(leaf);
    overlaps ? start(i, frame) : steps_[i]->run(frame);
    if (is_timed) {
      ended_[i] = now();
      taken_[i] += ended_[i] - begin;
      const auto part = overlaps ? StepEvents::Part::kStart : StepEvents::Part::kComplete;
      events_.add(i, part, begin, ended_[i], state.traffic.total() - received);
    }
    if (communicates) state.overlap.resume(ended_[i]);
    test_messages(state);
    if (world_ != nullptr) world_->advance(state.progress + step_of_[i] + 1);
  }
  for (; next < schedule_->steps.size(); ++next) prepare(next, frame);
}

// Performs the waits before a step of the schedule, including those of steps without a kernel, because peers may wait
// for them.
void Plan::prepare(std::size_t step, const Frame& frame) {
  if (!schedule_->rows.empty()) find_rows(static_cast<std::int32_t>(step));
  if (world_ != nullptr && !waits_[step].empty()) {
    world_->advance(frame.state.progress + step);
    await(waits_[step], frame.state);
  }
  if (!schedule_->steps[step].completes.empty()) complete(schedule_->steps[step].completes, frame);
}

void Plan::find_rows(std::int32_t step) {
  for (; next_row_ < schedule_->rows.size() && schedule_->rows[next_row_].step <= step; ++next_row_) {
    const RowAddress& row = schedule_->rows[next_row_];
    std::int32_t index = 0;
    std::memcpy(&index, at(pointers_, row.index), sizeof index);
    at(pointers_, row.row) = at(pointers_, row.stack) + std::clamp<std::int64_t>(index, 0, row.last) * row.stride;
  }
}

bool Plan::has_no_work(Id id) const {
  const auto& unwritten = schedule_->unwritten;
  if (std::find(unwritten.begin(), unwritten.end(), id) != unwritten.end()) return true;
  return std::any_of(schedule_->rows.begin(), schedule_->rows.end(),
                     [&](const RowAddress& row) { return row.access == id; });
}

// Messages make progress only when they are tested.
void Plan::test_messages(RunState& state) {
  for (auto& [step, started] : under_way_) {
    bool is_complete = true;
    for (const auto& operation : started.operations) is_complete = operation->test() && is_complete;
    if (!is_complete || !std::exchange(started.is_in_flight, false)) continue;
    const std::int64_t time = now();
    state.overlap.pause(time);
    state.overlap.end();
    state.overlap.resume(time);
  }
}

void Plan::start(std::size_t i, const Frame& frame) {
  UnderWay& started = under_way_[static_cast<std::int32_t>(step_of_[i])];
  started = {i, steps_[i]->start(frame), false};
  started.is_in_flight = !started.operations.empty();
  if (started.is_in_flight) frame.state.overlap.start();
}

void Plan::complete(const std::vector<std::int32_t>& steps, const Frame& frame) {
  for (const std::int32_t step : steps) {
    auto started = under_way_.extract(step);
    if (started.empty()) continue;
    const std::int64_t begin = now();
    frame.state.overlap.pause(begin);
    const std::size_t i = started.mapped().index;
    for (const auto& operation : started.mapped().operations) operation->wait();
    steps_[i]->finish(frame);
    if (started.mapped().is_in_flight) frame.state.overlap.end();
    ended_[i] = now();
    frame.state.overlap.resume(ended_[i]);
    taken_[i] += ended_[i] - begin;
    events_.add(i, StepEvents::Part::kDone, begin, ended_[i]);
  }
}

// The time of a collective is the sum of its start, its end and its waits for peers.
void Plan::count_times(RunState& state) {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (!profile_.empty()) {
      profile_[i].nanoseconds += taken_[i];
      ++profile_[i].runs;
    }
    const std::string_view metric = steps_[i]->communication();
    if (metric.empty()) continue;
    state.communication_nanoseconds += taken_[i];
    metrics().add_sample(metric, MetricUnit::kTime, static_cast<double>(taken_[i]), ended_[i]);
  }
}

void Plan::deliver() const {
  const auto& results = schedule_->results;
  for (std::size_t k = 0; k < results.size(); ++k)
    if (results[k].staging != kNoBuffer)
      copy_bytes(at(pointers_, results[k].staging), at(pointers_, results[k].source.buffer), result_bytes_[k]);
  for (std::size_t k = 0; k < results.size(); ++k) {
    if (results[k].delivery != Delivery::kCopy) continue;
    const BufferId from = results[k].staging != kNoBuffer ? results[k].staging : results[k].source.buffer;
    copy_bytes(results_[k], at(pointers_, from), result_bytes_[k]);
  }
}

}  // namespace tessera
