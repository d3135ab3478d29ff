// SPDX-License-Identifier: Apache-2.0
#include "executable/staged_executable.h"

#include <algorithm>

#include "tessera/base/text.h"

namespace tessera {
namespace {

// One stage, and the values that it reads for the last time.
struct StagedPart {
  std::shared_ptr<Executable> executable;
  std::vector<int> arguments;
  std::vector<int> results;
  std::vector<bool> is_last_use;  // of each argument
};

std::int64_t array_bytes(const std::vector<Type>& types) {
  std::int64_t bytes = 0;
  for (const Type& type : types) bytes += type.byte_size();
  return bytes;
}

class StagedExecutable final : public Executable {
 public:
  StagedExecutable(const Program& program, const Stages& stages, ProcessGroup& world, const ExecutableOptions& options)
      : name_(options.name.empty() ? program.name : options.name),
        hash_(program.hash()),
        argument_types_(program.entry_computation().parameter_types()),
        result_types_(program.entry_computation().root_type().leaves()),
        results_(stages.results),
        value_count_(stages.value_count) {
    for (const Stage& stage : stages.stages) {
      ExecutableOptions own = options;
      own.name = name_ + "." + stage.name;
      parts_.push_back({compile(stage.program, world, own), stage.arguments, stage.results, {}});
      hash_ = hash_mix(hash_, parts_.back().executable->hash());
    }
    find_last_uses();
    find_donations();
    plan_memory();
  }

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::size_t hash() const override { return hash_; }
  [[nodiscard]] const std::vector<Type>& argument_types() const override { return argument_types_; }
  [[nodiscard]] const std::vector<Type>& result_types() const override { return result_types_; }
  [[nodiscard]] const ExecutableMemory& memory() const override { return memory_; }
  [[nodiscard]] const std::vector<int>& donations() const override { return donations_; }
  [[nodiscard]] const RunStatistics& last_run() const override { return last_run_; }
  void set_profiling(bool on) override {
    for (const StagedPart& part : parts_) part.executable->set_profiling(on);
  }
  [[nodiscard]] std::vector<StepProfile> profile() const override {
    std::vector<StepProfile> out;
    for (const StagedPart& part : parts_)
      for (StepProfile& step : part.executable->profile()) out.push_back(std::move(step));
    return out;
  }

  std::vector<DeviceArray> run_with(std::vector<DeviceArray>& arguments) override {
    require(arguments.size() == argument_types_.size(), "{}: takes {} arguments, got {}", name_, argument_types_.size(),
            arguments.size());
    std::vector<DeviceArray> values(static_cast<std::size_t>(value_count_));
    std::move(arguments.begin(), arguments.end(), values.begin());
    RunStatistics sum;
    try {
      for (const StagedPart& part : parts_) {
        run_part(part, values);
        add(sum, part.executable->last_run());
      }
    } catch (...) {
      std::move(values.begin(), values.begin() + std::ssize(arguments), arguments.begin());
      throw;
    }
    arguments.clear();
    last_run_ = sum;
    std::vector<DeviceArray> out;
    for (const int value : results_) out.push_back(at(values, value));
    return out;
  }

 private:
  // A stage that fails leaves the arguments that it has not overwritten in their places.
  static void run_part(const StagedPart& part, std::vector<DeviceArray>& values) {
    std::vector<DeviceArray> given;
    for (std::size_t i = 0; i < part.arguments.size(); ++i) {
      DeviceArray& value = at(values, part.arguments[i]);
      given.push_back(value);
      if (part.is_last_use[i]) value.reset();
    }
    std::vector<DeviceArray> results;
    try {
      results = part.executable->run_with(given);
    } catch (...) {
      for (std::size_t i = 0; i < given.size(); ++i) at(values, part.arguments[i]) = std::move(given[i]);
      throw;
    }
    for (std::size_t k = 0; k < results.size(); ++k) at(values, part.results[k]) = std::move(results[k]);
  }

  static void add(RunStatistics& sum, const RunStatistics& run) {
    sum.flops += run.flops;
    sum.traffic += run.traffic;
    sum.nanoseconds += run.nanoseconds;
    sum.communication_nanoseconds += run.communication_nanoseconds;
    sum.meeting_nanoseconds += run.meeting_nanoseconds;
    sum.overlapped_nanoseconds += run.overlapped_nanoseconds;
  }

  void find_last_uses() {
    std::vector<bool> is_read_later(static_cast<std::size_t>(value_count_), false);
    for (const int value : results_) at(is_read_later, value) = true;
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
      for (const int value : part->arguments) part->is_last_use.push_back(!at(is_read_later, value));
      for (const int value : part->arguments) at(is_read_later, value) = true;
    }
  }

  void find_donations() {
    std::vector<int> source(static_cast<std::size_t>(value_count_), -1);  // the argument whose memory a value has
    for (int i = 0; i < isize(argument_types_); ++i) at(source, i) = i;
    for (const StagedPart& part : parts_)
      for (std::size_t k = 0; k < part.results.size(); ++k)
        if (const int from = part.executable->donations()[k]; from >= 0)
          at(source, part.results[k]) = at(source, at(part.arguments, from));
    for (const int value : results_) donations_.push_back(value < isize(argument_types_) ? -1 : at(source, value));
  }

  // The bytes of each value, and the largest sum of a stage and the values that wait meanwhile.
  void plan_memory() {
    std::vector<std::int64_t> bytes(static_cast<std::size_t>(value_count_), 0);
    for (int i = 0; i < isize(argument_types_); ++i) at(bytes, i) = at(argument_types_, i).byte_size();
    std::int64_t live = array_bytes(argument_types_);
    std::int64_t peak = 0;
    std::int64_t largest_arena = 0;
    for (const StagedPart& part : parts_) {
      const ExecutableMemory& own = part.executable->memory();
      std::int64_t freed = 0;
      for (std::size_t i = 0; i < part.arguments.size(); ++i)
        if (part.is_last_use[i]) freed += at(bytes, part.arguments[i]);
      std::int64_t made = 0;
      for (std::size_t k = 0; k < part.results.size(); ++k)
        made += at(bytes, part.results[k]) = part.executable->result_types()[k].byte_size();
      if (own.arena >= largest_arena) memory_.arena_peak = own.arena_peak;
      largest_arena = std::max(largest_arena, own.arena);
      peak = std::max(peak, live + own.peak_bytes() - own.arguments);
      live += made - freed;
      memory_.constants += own.constants;
      memory_.file = std::max(memory_.file, own.file);
      memory_.workspace = std::max(memory_.workspace, own.workspace);
    }
    memory_.arguments = array_bytes(argument_types_);
    memory_.results = array_bytes(result_types_);
    for (std::size_t k = 0; k < donations_.size(); ++k)
      if (donations_[k] >= 0) memory_.aliased += result_types_[k].byte_size();
    memory_.arena = std::max<std::int64_t>(0, peak - memory_.peak_bytes());
  }

  std::string name_;
  std::size_t hash_;
  std::vector<Type> argument_types_;
  std::vector<Type> result_types_;
  std::vector<int> results_;
  int value_count_;
  std::vector<StagedPart> parts_;
  std::vector<int> donations_;
  ExecutableMemory memory_;
  RunStatistics last_run_;
};

}  // namespace

std::shared_ptr<Executable> compile_stages(const Program& program, const Stages& stages, ProcessGroup& world,
                                           const ExecutableOptions& options) {
  return std::make_shared<StagedExecutable>(program, stages, world, options);
}

}  // namespace tessera
