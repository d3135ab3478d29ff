// SPDX-License-Identifier: Apache-2.0
// while, conditional, call: nested plans whose arenas are in the scratch memory of the step. The predicate of a loop
// with collectives and the index of a conditional with collectives must be the same on all ranks that must take the
// same path. These ranks use the values of the first of them.
#include <algorithm>
#include <cstring>

#include "executable/plan.h"
#include "executable/split_world.h"

namespace tessera {
namespace {

constexpr std::int64_t kPredicateBytes = kBufferAlignment;  // as in src/schedule/scratch.h

std::vector<std::byte*> resolve(const Frame& frame, std::span<const BufferId> buffers) {
  std::vector<std::byte*> out;
  for (const BufferId buffer : buffers) out.push_back(frame[buffer]);
  return out;
}

// Within branches and loops other ranks may have taken another path.
bool all_come_to(const CompileContext& context, const Schedule& schedule) {
  return schedule.computation == context.program.entry;
}

/// Replaces a value by that of the first rank, among the ranks that must take the same path.
class Agreement {
 public:
  // Without groups no ranks have to agree.
  Agreement(ProcessGroup& world, const RankGroups& groups) {
    if (!groups.empty() && isize(groups) < world.size()) group_ = split_into(world, groups);
  }
  void on(std::span<std::byte> word) const {
    if (group_ != nullptr && group_->size() > 1) group_->broadcast(word, 0);
  }

 private:
  std::shared_ptr<ProcessGroup> group_;  // null if no ranks have to agree
};

class CallStep final : public PlanStep {
 public:
  CallStep(CompileContext& context, const Schedule& schedule, const Step& step)
      : in_(operand_buffers(schedule, context.program[schedule.computation][step.instructions.front()])),
        out_(result_buffers(schedule, step.instructions.front())),
        scratch_(step.scratch),
        plan_(context, at(schedule.nested, step.instructions.front()).front().schedule) {}
  void run(const Frame& frame) const override {
    plan_.run(frame[scratch_], resolve(frame, in_), resolve(frame, out_), frame.state);
  }

 private:
  std::vector<BufferId> in_;
  std::vector<BufferId> out_;
  BufferId scratch_;
  mutable Plan plan_;
};

class WhileStep final : public PlanStep {
 public:
  WhileStep(CompileContext& context, const Schedule& schedule, const Step& step, const Instruction& instruction)
      : name_(instruction.name),
        trip_limit_(context.options.trip_limit),
        agreement_(context.world, all_come_to(context, schedule)
                                      ? united_rank_groups(context.program, instruction.called, context.world.size())
                                      : RankGroups()),
        in_(operand_buffers(schedule, instruction)),
        state_(result_buffers(schedule, step.instructions.front())),
        scratch_(step.scratch),
        condition_(context, at(schedule.nested, step.instructions.front())[0].schedule),
        body_(context, at(schedule.nested, step.instructions.front())[1].schedule) {
    for (const Type& leaf : instruction.type.leaves()) bytes_.push_back(leaf.byte_size());
  }
  void run(const Frame& frame) const override {
    const std::vector<std::byte*> state = resolve(frame, state_);
    for (std::size_t i = 0; i < state.size(); ++i)
      if (bytes_[i] > 0 && frame[in_[i]] != state[i])
        std::memcpy(state[i], frame[in_[i]], static_cast<std::size_t>(bytes_[i]));
    std::byte* predicate = frame[scratch_];
    std::byte* arena = predicate + kPredicateBytes;
    const std::vector<std::byte*> verdict = {predicate};
    for (std::int64_t round = 0;; ++round) {
      condition_.run(arena, state, verdict, frame.state);
      agreement_.on({predicate, 1});
      if (*predicate == std::byte{0}) return;
      require(trip_limit_ == 0 || round < trip_limit_, "while %{}: still running after {} rounds, the trip limit",
              name_, trip_limit_);
      body_.run(arena, state, state, frame.state);
    }
  }

 private:
  std::string name_;
  std::int64_t trip_limit_;
  Agreement agreement_;
  std::vector<BufferId> in_;
  std::vector<BufferId> state_;
  BufferId scratch_;
  mutable Plan condition_;
  mutable Plan body_;
  std::vector<std::int64_t> bytes_;
};

class ConditionalStep final : public PlanStep {
 public:
  ConditionalStep(CompileContext& context, const Schedule& schedule, const Step& step, const Instruction& instruction)
      : agreement_(context.world, agreeing_rank_groups(context.program, instruction.called, context.world.size(),
                                                       all_come_to(context, schedule))),
        out_(result_buffers(schedule, step.instructions.front())),
        scratch_(step.scratch) {
    const Computation& computation = context.program[schedule.computation];
    index_ = at(schedule.access, instruction.operands.front()).front().buffer;
    is_pred_ = computation[instruction.operands.front()].type.dtype() == DType::kPred;
    for (std::size_t k = 0; k < instruction.called.size(); ++k) {
      std::vector<BufferId> in;
      for (const Access& access : at(schedule.access, instruction.operands[k + 1])) in.push_back(access.buffer);
      in_.push_back(std::move(in));
      branches_.emplace_back(context, at(schedule.nested, step.instructions.front())[k].schedule);
    }
  }
  void run(const Frame& frame) const override {
    const std::size_t branch = choose(frame);
    branches_[branch].run(frame[scratch_], resolve(frame, in_[branch]), resolve(frame, out_), frame.state);
  }

 private:
  // Returns the branch to run. For a pred, true selects the first branch. An index out of range selects the last
  // branch.
  std::size_t choose(const Frame& frame) const {
    std::int32_t index = 0;
    if (is_pred_)
      index = *frame[index_] != std::byte{0} ? 0 : 1;
    else
      std::memcpy(&index, frame[index_], sizeof index);
    agreement_.on(std::as_writable_bytes(std::span(&index, 1)));
    const auto last = static_cast<std::int32_t>(branches_.size()) - 1;
    return static_cast<std::size_t>(index < 0 || index > last ? last : index);
  }

  Agreement agreement_;
  BufferId index_ = kNoBuffer;
  bool is_pred_ = false;
  std::vector<std::vector<BufferId>> in_;
  std::vector<BufferId> out_;
  BufferId scratch_;
  mutable std::vector<Plan> branches_;
};

}  // namespace

std::unique_ptr<PlanStep> make_control_step(CompileContext& context, const Schedule& schedule, const Step& step) {
  const Instruction& instruction = context.program[schedule.computation][step.instructions.front()];
  if (instruction.op->role == Role::kCall) return std::make_unique<CallStep>(context, schedule, step);
  if (instruction.op->role == Role::kWhile) return std::make_unique<WhileStep>(context, schedule, step, instruction);
  return std::make_unique<ConditionalStep>(context, schedule, step, instruction);
}

}  // namespace tessera
