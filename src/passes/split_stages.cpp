// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <limits>
#include <map>

#include "tessera/ops/structural.h"
#include "tessera/passes/passes.h"
#include "tessera/passes/stages.h"

namespace tessera {
namespace {

constexpr int kStageCount = static_cast<int>(std::size(kStageNames));

// The stage that the instruction names, or -1.
int named_stage(const Instruction& instruction) {
  const std::string* name = instruction.frontend_attribute(kStageAttribute);
  if (name == nullptr) return -1;
  const auto found = std::find(std::begin(kStageNames), std::end(kStageNames), *name);
  require(found != std::end(kStageNames), "{}: unknown stage \"{}\"; known: forward, backward, update",
          instruction.name, *name);
  return static_cast<int>(found - std::begin(kStageNames));
}

// Copied into each stage that uses it.
bool is_copied(const Instruction& instruction) {
  const Role role = instruction.op->role;
  return role == Role::kTuple ||
         (instruction.operands.empty() && role != Role::kParameter && !has_side_effect(instruction));
}

// The values that must be computed first.
template <class Visit>
void for_each_before(const Instruction& instruction, const Visit& visit) {
  std::for_each(instruction.operands.begin(), instruction.operands.end(), visit);
  std::for_each(instruction.control_predecessors.begin(), instruction.control_predecessors.end(), visit);
}

// The stage of each instruction of the entry computation.
std::vector<int> stages_of(const Computation& entry) {
  std::vector<int> stages(entry.instructions.size(), 0);
  for (Id id = 0; id < entry.size(); ++id) {
    int& stage = at(stages, id) = std::max(0, named_stage(entry[id]));
    for_each_before(entry[id], [&](Id before) { stage = std::max(stage, at(stages, before)); });
    if (entry[id].op->role == Role::kGetTupleElement) stage = at(stages, entry[id].operands[0]);
  }
  constexpr int kNoUser = std::numeric_limits<int>::max();
  std::vector<int> first_use(entry.instructions.size(), kNoUser);
  for (Id id = entry.size() - 1; id >= 0; --id) {
    const Instruction& instruction = entry[id];
    const bool is_free = named_stage(instruction) < 0 && instruction.op->role != Role::kGetTupleElement;
    if (is_free && at(first_use, id) != kNoUser) at(stages, id) = at(first_use, id);
    if (id == entry.root) continue;
    for_each_before(instruction,
                    [&](Id before) { at(first_use, before) = std::min(at(first_use, before), at(stages, id)); });
  }
  for (Id id = 0; id < entry.size(); ++id)  // an element is in the program of its tuple
    if (entry[id].op->role == Role::kGetTupleElement) at(stages, id) = at(stages, entry[id].operands[0]);
  return stages;
}

class StageSplitter {
 public:
  explicit StageSplitter(const Program& program)
      : program_(program), entry_(program.entry_computation()), stages_(stages_of(entry_)) {
    value_of_.assign(entry_.instructions.size(), -1);
    for (const Id parameter : entry_.parameters) value_of_[static_cast<std::size_t>(parameter)] = out_.value_count++;
  }

  Stages run() {
    check_types();
    mark_outputs();
    const std::vector<int> used = stages_in_use();
    if (used.size() < 2) return {};
    for (const int stage : used) out_.stages.push_back(build(stage));
    for (const Id operand : entry_[entry_.root].operands) out_.results.push_back(at(value_of_, operand));
    for (const Alias& alias : program_.aliases) add_alias(alias);
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool is_in(Id id, int stage) const {
    return id != entry_.root && entry_[id].op->role != Role::kParameter && at(stages_, id) == stage;
  }

  [[nodiscard]] std::vector<int> stages_in_use() const {
    std::vector<int> out;
    for (int stage = 0; stage < kStageCount; ++stage)
      for (Id id = 0; id < entry_.size(); ++id)
        if (is_in(id, stage) && (!is_copied(entry_[id]) || at(is_output_, id))) {
          out.push_back(stage);
          break;
        }
    return out;
  }

  void check_types() const {
    const Instruction& root = entry_[entry_.root];
    require(root.op->role == Role::kTuple, "{}: a program in stages must return a tuple, not {}", program_.name,
            root.type);
    for (const Id operand : root.operands)
      require(entry_[operand].type.is_array(), "{}: a result of a program in stages must be an array, {} is {}",
              program_.name, entry_[operand].name, entry_[operand].type);
    for (const Id parameter : entry_.parameters)
      require(entry_[parameter].type.is_array(), "{}: an argument of a program in stages must be an array, {} is {}",
              program_.name, entry_[parameter].name, entry_[parameter].type);
  }

  // The results of a stage: values of results, and values that a later stage reads.
  void mark_outputs() {
    is_output_.assign(entry_.instructions.size(), false);
    for (const Id operand : entry_[entry_.root].operands) at(is_output_, operand) = true;
    std::vector<int> last_use(entry_.instructions.size(), -1);
    for (Id id = entry_.size() - 1; id >= 0; --id) {
      if (id == entry_.root) continue;
      const int stage = is_copied(entry_[id]) ? std::max(at(last_use, id), at(stages_, id)) : at(stages_, id);
      for (const Id operand : entry_[id].operands) {
        at(last_use, operand) = std::max(at(last_use, operand), stage);
        if (!is_copied(entry_[operand]) && stage > at(stages_, operand)) at(is_output_, operand) = true;
      }
    }
  }

  // The instructions of a stage: its own, and copies of constants.
  [[nodiscard]] std::vector<bool> members(int stage) const {
    std::vector<bool> out(entry_.instructions.size(), false);
    for (Id id = entry_.size() - 1; id >= 0; --id) {
      const bool is_result = at(is_output_, id) && at(stages_, id) == stage;
      if (is_in(id, stage) && (!is_copied(entry_[id]) || is_result)) at(out, id) = true;
      if (!at(out, id)) continue;
      for (const Id operand : entry_[id].operands)
        if (is_copied(entry_[operand])) at(out, operand) = true;
    }
    return out;
  }

  Stage build(int stage) {
    const std::vector<bool> is_member = members(stage);
    ProgramBuilder program(program_);
    program.program().aliases.clear();
    Builder main = program.computation(entry_.name);
    Stage out{std::string(kStageNames[stage]), {}, {}, {}};
    std::vector<Id> ids = add_parameters(main, is_member, out);
    std::vector<Value> results;
    for (Id id = 0; id < entry_.size(); ++id) {
      if (!at(is_member, id)) continue;
      at(ids, id) = copy(main, id, ids);
      if (!at(is_output_, id) || at(stages_, id) != stage) continue;
      results.push_back(main.value(at(ids, id)));
      out.results.push_back(at(value_of_, id) = out_.value_count++);
    }
    const Value root = ops::tuple(main, results);
    program.program().name = program_.name + "." + out.name;
    out.program = remove_dead_code(program.finish(program.add(std::move(main), root)));
    return out;
  }

  // Adds a parameter for each value of an earlier stage. Returns the new ids.
  std::vector<Id> add_parameters(Builder& main, const std::vector<bool>& is_member, Stage& out) {
    std::vector<bool> is_read(entry_.instructions.size(), false);
    for (Id id = 0; id < entry_.size(); ++id)
      if (at(is_member, id))
        for (const Id operand : entry_[id].operands) at(is_read, operand) = true;
    std::vector<Id> ids(entry_.instructions.size(), -1);
    for (Id id = 0; id < entry_.size(); ++id) {
      if (!at(is_read, id) || at(is_member, id)) continue;
      const Instruction& from = entry_[id];
      ensure(from.type.is_array() && at(value_of_, id) >= 0, "{}: the value {} passes between stages as {}",
             program_.name, from.name, from.type);
      const auto number = static_cast<std::int64_t>(out.arguments.size());
      const Value made = ops::parameter(main, number, from.type, from.name);
      if (from.sharding) main.set_sharding(made, from.sharding);
      at(ids, id) = made.id;
      out.arguments.push_back(at(value_of_, id));
    }
    return ids;
  }

  Id copy(Builder& main, Id id, const std::vector<Id>& ids) const {
    Instruction made = entry_[id];
    for (Id& operand : made.operands) operand = at(ids, operand);
    std::vector<Id> before;  // those of earlier stages have ended
    for (const Id one : made.control_predecessors)
      if (at(ids, one) >= 0) before.push_back(at(ids, one));
    made.control_predecessors = std::move(before);
    return main.append(std::move(made)).id;
  }

  // A result may use the memory of an argument if no later stage reads the argument.
  void add_alias(const Alias& alias) {
    if (alias.output.size() != 1 || !alias.parameter_index.empty()) return;
    const int value = at(out_.results, alias.output[0]);
    const int argument = static_cast<int>(alias.parameter);
    const auto place_in = [](const std::vector<int>& list, int value) {
      return std::find(list.begin(), list.end(), value) - list.begin();
    };
    for (auto stage = out_.stages.rbegin(); stage != out_.stages.rend(); ++stage) {
      const auto result = place_in(stage->results, value);
      const auto parameter = place_in(stage->arguments, argument);
      const bool reads = parameter < std::ssize(stage->arguments);
      if (result < std::ssize(stage->results)) {
        if (reads) stage->program.aliases.push_back({{result}, parameter, {}, alias.must});
        return;
      }
      if (reads) return;
    }
  }

  const Program& program_;
  const Computation& entry_;
  std::vector<int> stages_;
  std::vector<int> value_of_;
  std::vector<bool> is_output_;
  Stages out_;
};

}  // namespace

Stages split_stages(const Program& program) {
  const auto& instructions = program.entry_computation().instructions;
  if (std::none_of(instructions.begin(), instructions.end(), [](const Instruction& i) { return named_stage(i) > 0; }))
    return {};
  return StageSplitter(program).run();
}

}  // namespace tessera
