// SPDX-License-Identifier: Apache-2.0
#include "tessera/runtime/executable/executable.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

#include "backend/backend.h"
#include "executable/memory.h"
#include "executable/memory_check.h"
#include "executable/plan.h"
#include "metrics/run_records.h"
#include "tessera/base/files.h"
#include "tessera/base/instruction_set.h"
#include "tessera/base/memory.h"
#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/signals.h"
#include "tessera/base/text.h"
#include "tessera/ir/text.h"
#include "tessera/lowering/execution_plan.h"
#include "tessera/passes/pipeline.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {
namespace {

// The progress of a rank.
struct ExecutionSequence {
  PerGroup<std::uint64_t> next;  // number of the next execution in each world
  std::uint64_t progress = 0;    // over all worlds (ProcessGroup::advance)
};

// The message of a rank before a run.
struct Start {
  std::uint64_t number = 0;
  std::uint64_t hash = 0;
  std::uint64_t moved = 0;  // nonzero if the memory that peers read in place has moved
  std::uint64_t progress = 0;
  MemoryNeed need;  // of the first run
};

// Sets the number of threads of the OpenMP runtime that oneDNN uses. The number belongs to the calling thread, and
// primitives keep that of the thread that created them.
void limit_threads() {
  using SetThreads = void (*)(int);
  static const auto kSetThreads = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (kSetThreads != nullptr) kSetThreads(static_cast<int>(options().integer("TESSERA_NUM_THREADS")));
}

// Every thread that runs kernels calls this first.
void prepare_thread() {
  leave_signals_to_another_thread();  // before oneDNN starts threads, which inherit it
  limit_threads();
}

std::int64_t nanoseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
}

class PlannedExecutable final : public Executable {
 public:
  PlannedExecutable(ExecutionPlan plan, ProcessGroup& world, const ExecutableOptions& options, std::size_t hash,
                    std::string dump_folder)
      : dump_folder_(std::move(dump_folder)),
        program_(std::move(plan.program)),
        world_(world),
        name_(options.name.empty() ? program_.name : options.name),
        hash_(hash) {
    prepare_thread();
    const auto& schedule = plan.schedule;
    dump(*schedule);
    CompileContext context{program_, world_, options};
    plan_ = std::make_unique<Plan>(context, schedule);
    fallbacks_ = std::move(context.fallbacks);
    for (const Type& type : program_.entry_computation().parameter_types())
      for (Type& leaf : type.leaves()) argument_types_.push_back(std::move(leaf));
    result_types_ = program_.entry_computation().root_type().leaves();
    memory_.arguments = schedule->parameter_bytes;
    memory_.arena = schedule->arena_bytes;
    memory_.file = schedule->file_bytes;
    memory_.workspace = context.workspace_bytes;
    memory_.constants = schedule->constant_bytes;
    memory_.arena_peak = arena_peak(program_, *schedule);
    for (std::size_t k = 0; k < result_types_.size(); ++k) {
      const Result& result = schedule->results[k];
      memory_.results += result_types_[k].byte_size();
      if (result.delivery == Delivery::kInPlace) memory_.aliased += result_types_[k].byte_size();
      donations_.push_back(result.delivery == Delivery::kInPlace ? result.parameter_leaf : -1);
    }
  }

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::size_t hash() const override { return hash_; }
  [[nodiscard]] const std::vector<Type>& argument_types() const override { return argument_types_; }
  [[nodiscard]] const std::vector<Type>& result_types() const override { return result_types_; }
  [[nodiscard]] const ExecutableMemory& memory() const override { return memory_; }
  [[nodiscard]] const std::vector<int>& donations() const override { return donations_; }
  [[nodiscard]] const RunStatistics& last_run() const override { return last_run_; }
  void set_profiling(bool on) override { plan_->set_profiling(on); }
  [[nodiscard]] std::vector<StepProfile> profile() const override { return plan_->profile(); }

  std::vector<DeviceArray> run_with(std::vector<DeviceArray>& arguments) override {
    const TimelineSpan span([&] { return run_label(name_, hash_); });
    const auto start = std::chrono::steady_clock::now();
    prepare_thread();
    check_arguments(arguments);
    std::vector<DeviceArray> results = make_results(arguments);
    std::vector<std::byte*> in;
    in.reserve(arguments.size());
    for (DeviceArray& argument : arguments)
      in.push_back(argument.is_null() ? nullptr : argument.mutable_bytes().data());
    std::vector<std::byte*> out;
    out.reserve(results.size());
    for (std::size_t k = 0; k < results.size(); ++k) {
      if (donations_[k] >= 0) at(in, donations_[k]) = results[k].mutable_bytes().data();
      out.push_back(results[k].is_null() ? nullptr : results[k].mutable_bytes().data());
    }
    RankMemory& memory = rank_memory();
    const MemoryNeed need = std::exchange(is_new_, false) ? need_of_first_run(memory) : MemoryNeed{};
    std::byte* arena = memory.arena_of(memory_.arena + memory_.workspace, name_);
    RunState state;
    state.workspace = arena + memory_.arena;
    state.file = memory.file_of(memory_.file);
    const auto begin = std::chrono::steady_clock::now();
    state.progress = meet(arena, in, need);
    if (std::any_of(donations_.begin(), donations_.end(),
                    [&](int leaf) { return leaf >= 0 && at(arguments, leaf).is_pinned(); }))
      state.before_overwrite = [&arguments](std::int32_t leaf) {
        if (const std::int64_t copied = at(arguments, leaf).preserve_pinned(); copied > 0)
          metrics().count("PinnedBytesCopied", copied);
      };
    const std::int64_t meeting = world_.size() == 1 ? 0 : nanoseconds_since(begin);
    try {
      run_steps(arena, in, out, state);
    } catch (...) {
      drop_overwritten(arguments, results);
      throw;
    }
    arguments.clear();
    memory.pool->end_of_run();
    last_run_ = {state.flops,
                 state.traffic,
                 nanoseconds_since(start),
                 meeting + state.communication_nanoseconds,
                 meeting,
                 state.overlap.nanoseconds()};
    record_run(last_run_, fallbacks_);
    return results;
  }

 private:
  // Writes the lowered program and its steps next to the dumps of the partitioner.
  void dump(const Schedule& schedule) const {
    if (dump_folder_.empty() || world_.rank() != 0) return;
    write_for_option("TESSERA_DUMP_DIR", [&] {
      const std::string path = dump_folder_ + "/run";
      make_folder(path);
      write_file(path + "/program.hlo", print_program(program_));
      write_file(path + "/schedule.txt", describe(program_, schedule));
    });
  }
  void check_arguments(const std::vector<DeviceArray>& arguments) const {
    require(arguments.size() == argument_types_.size(), "{}: takes {} arguments, got {}", name_, argument_types_.size(),
            arguments.size());
    for (std::size_t i = 0; i < arguments.size(); ++i)
      require(!argument_types_[i].is_array() || (!arguments[i].is_null() && arguments[i].type() == argument_types_[i]),
              "{}: argument {} must be {}, is {}", name_, i, argument_types_[i],
              [&] { return arguments[i].is_null() ? "gone" : arguments[i].type().str(); });
  }

  // What a run adds to the memory of this rank: results in memory of their own, and what the arena lacks.
  static std::int64_t added_by(const ExecutableMemory& program, const RankMemory& rank) {
    const std::int64_t arena = rank.arena ? rank.arena->bytes() : 0;
    return std::max<std::int64_t>(0, program.arena + program.workspace - arena) + program.results - program.aliased;
  }

  [[nodiscard]] MemoryNeed need_of_first_run(const RankMemory& memory) const {
    const std::int64_t more = added_by(memory_, memory);
    log_memory_need(name_, world_.rank(), memory_.peak_bytes(), more);
    MemoryNeed out = memory_need(more);
    if (const ExpectedProgram* later = expected_program()) out.later = added_by(later->memory, memory) + later->inputs;
    return out;
  }

  void check_memory(std::span<const MemoryNeed> needs) const {
    check_fits("program " + name_, memory_, needs);
    const ExpectedProgram* expected = expected_program();
    if (expected == nullptr) return;
    std::vector<MemoryNeed> later(needs.begin(), needs.end());
    for (MemoryNeed& need : later) need.more = need.later;
    check_fits(expected->name, expected->memory, later);
  }

  static void check_fits(const std::string& what, const ExecutableMemory& memory, std::span<const MemoryNeed> needs) {
    const std::string excess = memory_excess(needs);
    require(excess.empty(),
            "{} does not fit into memory: {}\nmemory of a rank:\n{}possible remedies: more ranks, --fsdp full_shard, "
            "--gradient_checkpointing true, fewer rows in a batch (--per_device_train_batch_size, in an evaluation "
            "--per_device_eval_batch_size), a larger limit",
            what, excess, memory.str());
  }

  // Checks that all ranks run the same executable now, because otherwise their collectives do not match. Afterwards
  // peers may read this rank's arguments. Returns a progress value that no rank has passed: some ranks may be ahead
  // because of other worlds.
  std::uint64_t meet(std::byte* arena, std::span<std::byte* const> arguments, const MemoryNeed& need) const {
    auto& sequence = RankContext::current().get<ExecutionSequence>();
    SharedViews* shared = plan_->shared_views();
    const bool moved = shared != nullptr && shared->locate(arena, arguments);
    std::uint64_t& number = sequence.next.of(world_);
    Start first{number++, hash_, moved ? 1U : 0U, sequence.progress, need};
    if (world_.size() > 1)
      first = agree(first);
    else
      check_memory({&need, 1});
    sequence.progress = first.progress + plan_->progress();
    if (first.moved != 0) shared->map(world_);
    return first.progress;
  }
  static std::vector<MemoryNeed> needs_of(const std::vector<Start>& starts) {
    std::vector<MemoryNeed> out;
    for (const Start& start : starts) out.push_back(start.need);
    return out;
  }

  // Combines the messages of all ranks: the maximum of the progress, and whether the memory of any rank has moved.
  [[nodiscard]] Start agree(const Start& mine) const {
    const TimelineSpan span("collective", "start");
    std::vector<Start> all(static_cast<std::size_t>(world_.size()));
    world_.all_gather(
        std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)),
        {static_cast<std::int64_t>(mine.number), fmt::format("the start of execution {} of {}", mine.number, name_)});
    Start out = mine;
    bool is_first_run = false;
    for (int rank = 0; rank < world_.size(); ++rank) {
      const Start& other = at(all, rank);
      require(other.number == all[0].number && other.hash == all[0].hash,
              "ranks run different programs: rank 0 starts execution {} of {:016x}, but rank {} starts execution {} of "
              "{:016x}; the program, the instruction set and the variables TESSERA_… must be the same on all ranks",
              all[0].number, all[0].hash, rank, other.number, other.hash);
      out.moved = std::max(out.moved, other.moved);
      out.progress = std::max(out.progress, other.progress);
      is_first_run = is_first_run || other.need.process != 0;
    }
    if (is_first_run) check_memory(needs_of(all));
    return out;
  }

  // Returns a new array for each result. For a donated argument it is the argument's array if nothing else holds it, or
  // a copy of it.
  std::vector<DeviceArray> make_results(const std::vector<DeviceArray>& arguments) const {
    std::vector<DeviceArray> results(result_types_.size());
    for (std::size_t k = 0; k < results.size(); ++k) {
      if (!result_types_[k].is_array()) continue;
      if (donations_[k] < 0) {
        results[k] = DeviceArray::uninitialized(result_types_[k]);
        continue;
      }
      const DeviceArray& given = at(arguments, donations_[k]);
      if (given.is_unique()) {
        results[k] = given.type() == result_types_[k] ? given : given.reshaped(result_types_[k].dims());
        continue;
      }
      results[k] = DeviceArray::uninitialized(result_types_[k]);
      if (result_types_[k].byte_size() > 0)
        std::memcpy(results[k].mutable_bytes().data(), given.bytes().data(), given.bytes().size());
      metrics().count("DonationCopy");
    }
    return results;
  }

  void run_steps(std::byte* arena, const std::vector<std::byte*>& in, const std::vector<std::byte*>& out,
                 RunState& state) const {
    try {
      plan_->run(arena, in, out, state);
    } catch (const std::bad_alloc&) {  // memory of a step outside of the plan
      fail("out of memory in a step of program {}, whose arena has {}; {}", name_,
           format_bytes(static_cast<double>(memory_.arena)), memory_state());
    }
  }

  // After a failed run, the donated arguments that it overwrote are lost.
  void drop_overwritten(std::vector<DeviceArray>& arguments, const std::vector<DeviceArray>& results) const {
    for (std::size_t k = 0; k < results.size(); ++k)
      if (donations_[k] >= 0 && at(arguments, donations_[k]).shares_memory_with(results[k]))
        at(arguments, donations_[k]).reset();
  }

  const std::string dump_folder_;  // "": none
  const Program program_;
  ProcessGroup& world_;
  std::string name_;
  std::size_t hash_;
  std::unique_ptr<Plan> plan_;
  bool is_new_ = true;  // no run has compared its need of memory with the limits
  std::vector<std::string> fallbacks_;
  std::vector<Type> argument_types_;
  std::vector<Type> result_types_;
  std::vector<int> donations_;
  ExecutableMemory memory_;
  RunStatistics last_run_;
};

ExecutionOptions execution_options(const ExecutableOptions& options, const ProcessGroup& world) {
  ExecutionOptions out = ExecutionOptions::from_environment(world.size(), world.nodes());
  const bool may_fuse = options.fuse && !options.reference;
  out.lowering.rewrite = out.lowering.rewrite && may_fuse;
  out.schedule.fuse = out.schedule.fuse && may_fuse;
  out.schedule.look_through_views = !options.reference;
  return out;
}

std::size_t executable_hash(const Program& program, const ExecutableOptions& options, const ExecutionOptions& how) {
  std::size_t hash = hash_mix(program.hash(), options.reference ? 1U : 0U);
  hash = hash_mix(hash, static_cast<std::size_t>(options.trip_limit));
  hash = hash_mix(hash_mix(hash, how.hash()), static_cast<std::size_t>(instruction_set()));
  return hash_mix(hash, static_cast<std::size_t>(tessera::options().integer("TESSERA_NUM_THREADS")));
}

class KernelBackend final : public Backend {
 public:
  [[nodiscard]] std::string_view name() const override { return "CPU"; }
  [[nodiscard]] std::size_t hash(const Program& program, const ProcessGroup& world,
                                 const ExecutableOptions& options) const override {
    return executable_hash(program, options, execution_options(options, world));
  }
  [[nodiscard]] std::shared_ptr<Executable> build(const Program& program, ProcessGroup& world,
                                                  const ExecutableOptions& options, std::size_t hash) const override {
    ExecutionPlan plan = plan_execution(program, execution_options(options, world));
    require(plan.program.entry_computation().root_type() == program.entry_computation().root_type(),
            "{}: the result comes from a start instruction without its done; add the done", program.name);
    return std::make_shared<PlannedExecutable>(std::move(plan), world, options, hash, dump_folder(program));
  }
};

}  // namespace

const Backend& kernel_backend() {
  static const KernelBackend kBackend;
  return kBackend;
}

}  // namespace tessera
