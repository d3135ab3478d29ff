// SPDX-License-Identifier: Apache-2.0
// The backend REFERENCE: each rank evaluates the per-device program on its device by the definitions of the ops. At a
// collective, the ranks of a group gather the operands of all its members, and each evaluates the collective. All other
// code of the runtime is not used: lowering, schedule, memory plan, kernels, reductions of the process groups.
#include <chrono>
#include <cstring>
#include <unordered_map>

#include "backend/backend.h"
#include "executable/collective_step.h"
#include "executable/memory.h"
#include "executable/split_world.h"
#include "metrics/run_records.h"
#include "tessera/base/text.h"
#include "tessera/ops/evaluate.h"
#include "tessera/passes/passes.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t nanoseconds_from(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

// Copies between device arrays and literals. Metrics do not count them, because the memory is that of the host.
Literal literal_in(const DeviceArray& array, const Type& type) {
  Literal out(type);
  if (!array.is_null() && !array.bytes().empty())
    std::memcpy(out.mutable_bytes().data(), array.bytes().data(), array.bytes().size());
  return out;
}
DeviceArray array_with(const Literal& literal) {
  if (!literal.type().is_array()) return {};
  DeviceArray out = DeviceArray::uninitialized(literal.type());
  if (!literal.bytes().empty()) std::memcpy(out.mutable_bytes().data(), literal.bytes().data(), literal.bytes().size());
  return out;
}

// The value of a parameter from the arrays of its leaves.
Literal parameter_value(const Type& type, const std::vector<DeviceArray>& leaves, std::size_t& next) {
  if (!type.is_tuple()) return literal_in(leaves[next++], type);
  std::vector<Literal> elements;
  for (const Type& element : type.elements()) elements.push_back(parameter_value(element, leaves, next));
  return Literal::tuple(std::move(elements));
}

// The program with collectives whose groups list the ranks of the world.
Program for_ranks(const Program& program) {
  Program out = with_groups_of_devices(make_synchronous(program));
  out.num_partitions *= std::exchange(out.replica_count, 1);
  return out;
}

class ReferenceExecutable final : public Executable {
 public:
  ReferenceExecutable(const Program& program, ProcessGroup& world, const ExecutableOptions& options, std::size_t hash)
      : program_(for_ranks(program)),
        world_(world),
        name_(options.name.empty() ? program.name : options.name),
        trip_limit_(options.trip_limit),
        hash_(hash),
        parameter_types_(program.entry_computation().parameter_types()),
        result_types_(program.entry_computation().root_type().leaves()),
        donations_(result_types_.size(), -1) {
    for (const Type& type : parameter_types_)
      for (Type& leaf : type.leaves()) argument_types_.push_back(std::move(leaf));
    for (const Type& type : argument_types_) memory_.arguments += type.byte_size();
    for (const Type& type : result_types_) memory_.results += type.byte_size();
    for (const ComputationRef& computation : program_.computations)
      for (const Instruction& instruction : computation->instructions)
        if (instruction.op->evaluate_collective != nullptr) add_group(instruction);
  }

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::size_t hash() const override { return hash_; }
  [[nodiscard]] const std::vector<Type>& argument_types() const override { return argument_types_; }
  [[nodiscard]] const std::vector<Type>& result_types() const override { return result_types_; }
  [[nodiscard]] const ExecutableMemory& memory() const override { return memory_; }
  [[nodiscard]] const std::vector<int>& donations() const override { return donations_; }
  [[nodiscard]] const RunStatistics& last_run() const override { return last_run_; }
  // There are no schedule steps whose times could be measured.
  void set_profiling(bool /*on*/) override {}
  [[nodiscard]] std::vector<StepProfile> profile() const override { return {}; }

  std::vector<DeviceArray> run_with(std::vector<DeviceArray>& arguments) override {
    const TimelineSpan span([&] { return run_label(name_, hash_); });
    const auto start = Clock::now();
    check_arguments(arguments);
    RunStatistics run;
    meet(run);
    const TrafficCounters before = world_.rank_traffic();
    world_.works_on(fmt::format("evaluates {}", name_));
    const Literal result = evaluate_with(arguments, run);
    world_.works_on("");
    std::vector<DeviceArray> results;
    for (const Literal& leaf : result.leaves()) results.push_back(array_with(leaf));
    arguments.clear();
    rank_memory().pool->end_of_run();
    run.traffic = difference(world_.rank_traffic(), before);
    run.nanoseconds = nanoseconds_from(start);
    last_run_ = run;
    record_run(last_run_, {});
    return results;
  }

 private:
  // The group of this rank in a collective, and the devices of its members.
  struct Members {
    std::shared_ptr<ProcessGroup> group;
    std::vector<int> devices;
    CollectiveLabel label;
  };
  using Operands = std::vector<Literal>;

  void add_group(const Instruction& collective) {
    const RankGroups groups = rank_groups(collective, world_.size());
    const auto number = static_cast<std::int64_t>(members_.size());
    members_[&collective] = {split_into(world_, groups),
                             own_group(groups, world_.rank()),
                             {number, fmt::format("{} %{}", collective.op->name, collective.name)}};
  }

  void check_arguments(const std::vector<DeviceArray>& arguments) const {
    require(arguments.size() == argument_types_.size(), "{}: takes {} arguments, got {}", name_, argument_types_.size(),
            arguments.size());
    for (std::size_t i = 0; i < arguments.size(); ++i)
      require(!argument_types_[i].is_array() || (!arguments[i].is_null() && arguments[i].type() == argument_types_[i]),
              "{}: argument {} must be {}, is {}", name_, i, argument_types_[i],
              [&] { return arguments[i].is_null() ? "gone" : arguments[i].type().str(); });
  }

  // Checks that all ranks run the same program.
  void meet(RunStatistics& run) const {
    if (world_.size() == 1) return;
    const TimelineSpan span("collective", "start");
    const auto start = Clock::now();
    const std::uint64_t mine = hash_;
    std::vector<std::uint64_t> all(static_cast<std::size_t>(world_.size()));
    world_.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)),
                      {0, fmt::format("the start of {}", name_)});
    for (int rank = 0; rank < world_.size(); ++rank)
      require(at(all, rank) == all[0],
              "ranks run different programs: rank 0 starts {:016x}, but rank {} starts {:016x}", all[0], rank,
              at(all, rank));
    run.meeting_nanoseconds = run.communication_nanoseconds = nanoseconds_from(start);
  }

  [[nodiscard]] Literal evaluate_with(const std::vector<DeviceArray>& arguments, RunStatistics& run) const {
    Operands values;
    std::size_t next = 0;
    for (const Type& type : parameter_types_) values.push_back(parameter_value(type, arguments, next));
    EvaluateOptions how;
    how.trip_limit = trip_limit_;
    how.partition = program_.num_partitions > 1 ? world_.rank() : 0;
    how.exchange = [&](const Instruction& collective, const Operands& own) {
      const auto start = Clock::now();
      auto all = gathered_operands(members_.at(&collective), own);
      run.communication_nanoseconds += nanoseconds_from(start);
      return all;
    };
    return evaluate(program_, values, how);
  }

  // By device. The operands have equal types on all members.
  [[nodiscard]] std::vector<Operands> gathered_operands(const Members& members, const Operands& own) const {
    std::vector<Operands> out(static_cast<std::size_t>(program_.num_partitions));
    for (const Literal& operand : own) {
      const std::size_t bytes = operand.bytes().size();
      std::vector<std::byte> all(bytes * members.devices.size());
      if (bytes > 0) members.group->all_gather(operand.bytes(), all, members.label);
      for (std::size_t m = 0; m < members.devices.size(); ++m) {
        Literal& of_member = at(out, members.devices[m]).emplace_back(operand.type());
        if (bytes > 0) std::memcpy(of_member.mutable_bytes().data(), all.data() + m * bytes, bytes);
      }
    }
    return out;
  }

  const Program program_;
  ProcessGroup& world_;
  std::string name_;
  std::int64_t trip_limit_;
  std::size_t hash_;
  std::vector<Type> parameter_types_;
  std::vector<Type> argument_types_;
  std::vector<Type> result_types_;
  std::vector<int> donations_;
  std::unordered_map<const Instruction*, Members> members_;
  ExecutableMemory memory_;
  RunStatistics last_run_;
};

class ReferenceBackend final : public Backend {
 public:
  [[nodiscard]] std::string_view name() const override { return "REFERENCE"; }
  [[nodiscard]] std::size_t hash(const Program& program, const ProcessGroup& /*world*/,
                                 const ExecutableOptions& options) const override {
    return hash_mix(hash_mix(program.hash(), hash_text(name())), static_cast<std::size_t>(options.trip_limit));
  }
  [[nodiscard]] std::shared_ptr<Executable> build(const Program& program, ProcessGroup& world,
                                                  const ExecutableOptions& options, std::size_t hash) const override {
    return std::make_shared<ReferenceExecutable>(program, world, options, hash);
  }
};

}  // namespace

const Backend& reference_backend() {
  static const ReferenceBackend kBackend;
  return kBackend;
}

}  // namespace tessera
