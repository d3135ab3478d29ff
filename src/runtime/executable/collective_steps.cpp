// SPDX-License-Identifier: Apache-2.0
// Executes collective instructions on a ProcessGroup. Groups are created when the program is compiled, in the same
// order on every rank. If the dim of a collective is not the outermost, its parts are packed and unpacked in scratch
// memory.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "executable/collective_step.h"
#include "executable/split_world.h"
#include "tessera/ops/collectives.h"
#include "tessera/ops/contraction.h"

namespace tessera {
namespace {

std::string axes_of(const Instruction& instruction, const CollectiveAttributes& a) {
  const std::string* axes = instruction.frontend_attribute("tessera.axes");
  return axes != nullptr ? *axes : field_text(a.replica_groups);
}

// A sum of complex numbers is the sum of their parts.
DType reduced_dtype(const Type& type, Reduction reduction) {
  return reduction == Reduction::kSum ? real_dtype(type.dtype()) : type.dtype();
}

class AllGatherStep final : public CollectiveStep {
 public:
  using CollectiveStep::CollectiveStep;
  std::int64_t dim = 0;

  [[nodiscard]] const GatherGroup* gather_group() const override { return &gather_group_; }
  /// Marks the results of which there is one per node.
  void share(const Schedule& schedule, Id id, std::vector<int> world_members) {
    gather_group_ = {&group_, std::move(world_members)};
    is_shared_.assign(out_.size(), false);
    is_assembled_.assign(out_.size(), false);
    for (const SharedGather& gather : schedule.shared_gathers) {
      if (gather.id != id) continue;
      at(is_shared_, gather.leaf) = true;
      at(is_assembled_, gather.leaf) = gather.assembled;
    }
    std::erase_if(packed_, [&](std::size_t i) { return is_shared_[i]; });
    packed_bytes_ = 0;
    for (const std::size_t i : packed_) packed_bytes_ += types_[i].byte_size();
  }

 private:
  void exchange(const Frame& frame) const override {
    for_each_operand(frame, [&](std::size_t i, std::int64_t bytes) {
      // Counted like other all-gathers, because the rank reads these bytes.
      if (is_shared_[i] && !frame.shared->is_copy(out_[i])) {
        if (is_assembled_[i])
          std::memcpy(frame[out_[i]] + group_.rank() * bytes, frame[in_[i]], static_cast<std::size_t>(bytes));
        frame.state.traffic.all_gather += bytes * (parts() - 1);
        ++frame.state.traffic.calls;
        return;
      }
      const PartLayout layout(results_[i], dim, parts());
      std::byte* target = layout.is_contiguous() ? frame[out_[i]] : frame[scratch_];
      group_.all_gather(bytes_of(static_cast<const std::byte*>(frame[in_[i]]), bytes),
                        bytes_of(target, bytes * parts()), label_);
      if (!layout.is_contiguous()) layout.unpack(target, frame[out_[i]], parts());
    });
    exchange_packed(frame, dim, 1, parts(),
                    [&](auto sent, auto received) { group_.all_gather(sent, received, label_); });
  }
  void begin(const Frame& frame, PendingOperations& operations) const override {
    const auto start = [&](std::span<const std::byte> in, std::span<std::byte> out) {
      operations.push_back(group_.start_all_gather(in, out, label_));
    };
    for_each_operand(frame, [&](std::size_t i, std::int64_t bytes) {
      start(bytes_of(static_cast<const std::byte*>(frame[in_[i]]), bytes), bytes_of(frame[out_[i]], bytes * parts()));
    });
    send_packed(frame, dim, 1, parts(), start);
  }
  void finish(const Frame& frame) const override {
    if (parts() > 1) receive_packed(frame, dim, 1, parts());
  }

  GatherGroup gather_group_;
  std::vector<bool> is_shared_;
  std::vector<bool> is_assembled_;  // of the shared results: each member writes its part to a slice
};

class ReduceScatterStep final : public CollectiveStep {
 public:
  using CollectiveStep::CollectiveStep;
  std::int64_t dim = 0;
  Reduction reduction = Reduction::kSum;

 private:
  void exchange(const Frame& frame) const override {
    for_each_operand(frame, [&](std::size_t i, std::int64_t bytes) {
      const PartLayout layout(types_[i], dim, parts());
      const std::byte* source = frame[in_[i]];
      if (!layout.is_contiguous()) {
        layout.pack(source, frame[scratch_], parts());
        source = frame[scratch_];
      }
      group_.reduce_scatter(bytes_of(source, bytes), bytes_of(frame[out_[i]], bytes / parts()),
                            reduced_dtype(types_[i], reduction), reduction, label_);
    });
    exchange_packed(frame, dim, parts(), 1, [&](auto sent, auto received) {
      group_.reduce_scatter(sent, received, reduced_dtype(types_[0], reduction), reduction, label_);
    });
  }
  void begin(const Frame& frame, PendingOperations& operations) const override {
    for_each_operand(frame, [&](std::size_t i, std::int64_t bytes) {
      operations.push_back(group_.start_reduce_scatter(bytes_of(static_cast<const std::byte*>(frame[in_[i]]), bytes),
                                                       bytes_of(frame[out_[i]], bytes / parts()),
                                                       reduced_dtype(types_[i], reduction), reduction, label_));
    });
    send_packed(frame, dim, parts(), 1, [&](auto sent, auto received) {
      operations.push_back(
          group_.start_reduce_scatter(sent, received, reduced_dtype(types_[0], reduction), reduction, label_));
    });
  }
  void finish(const Frame& frame) const override {
    if (parts() > 1) receive_packed(frame, dim, parts(), 1);
  }
};

class AllReduceStep final : public CollectiveStep {
 public:
  using CollectiveStep::CollectiveStep;
  Reduction reduction = Reduction::kSum;

 private:
  // Rounds 2(g-1)/g of the bytes for each operand separately, so that the figures of `stats` do not depend on the
  // packing.
  [[nodiscard]] std::int64_t rounding_of_packed() const {
    const auto received = [&](std::int64_t bytes) { return 2 * bytes * (parts() - 1) / parts(); };
    std::int64_t rounding = received(packed_bytes_);
    for (const std::size_t i : packed_) rounding -= received(types_[i].byte_size());
    return rounding;
  }
  void exchange(const Frame& frame) const override {
    for_each_operand(frame, [&](std::size_t i, std::int64_t bytes) {
      group_.all_reduce(bytes_of(static_cast<const std::byte*>(frame[in_[i]]), bytes), bytes_of(frame[out_[i]], bytes),
                        reduced_dtype(types_[i], reduction), reduction, label_);
    });
    exchange_packed(frame, 0, 1, 1, [&](auto sent, auto received) {
      group_.all_reduce(sent, received, reduced_dtype(types_[0], reduction), reduction, label_);
    });
    frame.state.traffic.all_reduce -= rounding_of_packed();
  }
  void begin(const Frame& frame, PendingOperations& operations) const override {
    for_each_operand(frame, [&](std::size_t i, std::int64_t bytes) {
      operations.push_back(group_.start_all_reduce(bytes_of(static_cast<const std::byte*>(frame[in_[i]]), bytes),
                                                   bytes_of(frame[out_[i]], bytes), reduced_dtype(types_[i], reduction),
                                                   reduction, label_));
    });
    send_packed(frame, 0, 1, 1, [&](auto sent, auto received) {
      operations.push_back(
          group_.start_all_reduce(sent, received, reduced_dtype(types_[0], reduction), reduction, label_));
    });
    frame.state.traffic.all_reduce -= rounding_of_packed();
  }
  void finish(const Frame& frame) const override {
    if (parts() > 1) receive_packed(frame, 0, 1, 1);
  }
};

class AllToAllStep final : public CollectiveStep {
 public:
  using CollectiveStep::CollectiveStep;
  std::int64_t dim = 0;
  bool of_tuple = false;

 private:
  void exchange(const Frame& frame) const override {
    if (of_tuple) return exchange_tuple(frame);
    const std::int64_t bytes = types_[0].byte_size();
    if (bytes == 0) return;
    if (parts() == 1) return copy_through(frame, 0);
    const PartLayout layout(types_[0], dim, parts());
    if (layout.is_contiguous()) {
      group_.all_to_all(bytes_of(static_cast<const std::byte*>(frame[in_[0]]), bytes), bytes_of(frame[out_[0]], bytes),
                        label_);
      return;
    }
    std::byte* sent = frame[scratch_];
    std::byte* received = sent + bytes;
    layout.pack(frame[in_[0]], sent, parts());
    group_.all_to_all(bytes_of(static_cast<const std::byte*>(sent), bytes), bytes_of(received, bytes), label_);
    layout.unpack(received, frame[out_[0]], parts());
  }
  // Sends operand k to member k.
  void exchange_tuple(const Frame& frame) const {
    const std::int64_t one = types_[0].byte_size();
    if (one == 0) return;
    const std::int64_t all = one * parts();
    std::byte* sent = frame[scratch_];
    std::byte* received = sent + all;
    for (std::size_t k = 0; k < in_.size(); ++k)
      std::memcpy(sent + static_cast<std::int64_t>(k) * one, frame[in_[k]], static_cast<std::size_t>(one));
    group_.all_to_all(bytes_of(static_cast<const std::byte*>(sent), all), bytes_of(received, all), label_);
    for (std::size_t k = 0; k < out_.size(); ++k)
      std::memcpy(frame[out_[k]], received + static_cast<std::int64_t>(k) * one, static_cast<std::size_t>(one));
  }
};

class PermuteStep final : public CollectiveStep {
 public:
  using CollectiveStep::CollectiveStep;
  std::vector<std::pair<int, int>> pairs;

 private:
  void exchange(const Frame& frame) const override {
    for (std::size_t i = 0; i < in_.size(); ++i) {
      const std::int64_t bytes = types_[i].byte_size();
      if (bytes > 0 && !is_packed(i))
        group_.permute(bytes_of(static_cast<const std::byte*>(frame[in_[i]]), bytes), bytes_of(frame[out_[i]], bytes),
                       pairs, label_);
    }
    exchange_packed(frame, 0, 1, 1, [&](auto sent, auto received) { group_.permute(sent, received, pairs, label_); });
  }
};

class BroadcastStep final : public CollectiveStep {
 public:
  using CollectiveStep::CollectiveStep;
  bool is_member = true;

 private:
  void exchange(const Frame& frame) const override {
    const std::int64_t bytes = types_[0].byte_size();
    if (bytes == 0) return;
    if (!is_member) {
      std::memset(frame[out_[0]], 0, static_cast<std::size_t>(bytes));
      return;
    }
    if (group_.rank() == 0) copy_through(frame, 0);
    if (parts() > 1) group_.broadcast(bytes_of(frame[out_[0]], bytes), 0, label_);
  }
};

Reduction reduction_for(const OpView& view, const Instruction& instruction) {
  const auto reduction = reduction_of(*view.called.at(0));
  require(reduction.has_value(), "%{}: {} by %{} cannot be run; add, multiply, minimum, maximum, and, or can",
          instruction.name, view.op.name, view.called[0]->name);
  return *reduction;
}

std::unique_ptr<PlanStep> make_permute_step(CompileContext& context, const Schedule& schedule, const Step& step,
                                            const RankGroups& groups) {
  const Instruction& permute = context.program[schedule.computation][step.instructions.front()];
  const std::string* axes = permute.frontend_attribute("tessera.axes");
  std::shared_ptr<ProcessGroup> group = split_into(context.world, groups);
  ProcessGroup& of = *group;
  auto made = std::make_unique<PermuteStep>(context, schedule, step, std::move(group), of,
                                            axes != nullptr ? *axes : "the world");
  const std::vector<int> own = own_group(groups, context.world.rank());
  const auto member = [&](std::int64_t rank) {
    const auto found = std::find(own.begin(), own.end(), rank);
    return found == own.end() ? -1 : static_cast<int>(found - own.begin());
  };
  for (const auto& [source, target] : attributes_as<PermuteAttributes>(permute.attributes).source_target_pairs.pairs)
    if (member(source) >= 0) made->pairs.emplace_back(member(source), member(target));
  return made;
}

// Returns true if the rank is in one of the groups. An empty list means all ranks.
bool is_in_groups(const CollectiveAttributes& attributes, int rank) {
  const auto& groups = attributes.replica_groups.groups;
  return groups.empty() || std::any_of(groups.begin(), groups.end(), [&](const auto& group) {
           return std::find(group.begin(), group.end(), rank) != group.end();
         });
}

// For collectives with replica groups.
std::unique_ptr<PlanStep> make_group_step(CompileContext& context, const Schedule& schedule, const Step& step,
                                          const RankGroups& groups) {
  const Computation& computation = context.program[schedule.computation];
  const Instruction& instruction = computation[step.instructions.front()];
  const OpView view = view_of(context.program, computation, instruction);
  const auto& a = view.as<CollectiveAttributes>();
  const std::string axes = axes_of(instruction, a);
  std::shared_ptr<ProcessGroup> group = split_into(context.world, groups);
  ProcessGroup& of = *group;
  const std::int64_t dim = a.dimensions.empty() ? 0 : a.dimensions.front();
  const auto make = [&]<class T>() { return std::make_unique<T>(context, schedule, step, std::move(group), of, axes); };
  switch (instruction.op->collective) {
    case CollectiveKind::kAllGather: {
      auto made = make.operator()<AllGatherStep>();
      made->dim = dim;
      made->share(schedule, step.instructions.front(), own_group(groups, context.world.rank()));
      return made;
    }
    case CollectiveKind::kReduceScatter: {
      auto made = make.operator()<ReduceScatterStep>();
      made->dim = dim;
      made->reduction = reduction_for(view, instruction);
      return made;
    }
    case CollectiveKind::kAllReduce: {
      auto made = make.operator()<AllReduceStep>();
      made->reduction = reduction_for(view, instruction);
      return made;
    }
    case CollectiveKind::kAllToAll: {
      auto made = make.operator()<AllToAllStep>();
      made->dim = dim;
      made->of_tuple = a.dimensions.empty();
      require(!made->of_tuple || isize(view.operands) == of.size(), "%{}: {} operands for groups of {}",
              instruction.name, view.operands.size(), of.size());
      return made;
    }
    case CollectiveKind::kRaggedAllToAll:
      return make_ragged_exchange_step(context, schedule, step, std::move(group), axes);
    case CollectiveKind::kBroadcast: {
      auto made = make.operator()<BroadcastStep>();
      made->is_member = is_in_groups(a, context.world.rank());
      return made;
    }
    default: fail("%{}: {} cannot be run", instruction.name, instruction.op->name);
  }
}

}  // namespace

std::unique_ptr<PlanStep> make_collective_step(CompileContext& context, const Schedule& schedule, const Step& step) {
  const Instruction& instruction = context.program[schedule.computation][step.instructions.front()];
  RankGroups groups;
  try {
    groups = rank_groups(instruction, context.world.size());
  } catch (Error& error) {
    throw error.prefix(fmt::format("%{}: ", instruction.name));
  }
  if (instruction.op->collective == CollectiveKind::kPermute) return make_permute_step(context, schedule, step, groups);
  return make_group_step(context, schedule, step, groups);
}

}  // namespace tessera
