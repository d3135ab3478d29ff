// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "execution/execute.h"
#include "tessera/autodiff/gradients.h"
#include "tessera/ops/structural.h"
#include "tessera/passes/stages.h"
#include "tracing/program_name.h"

namespace tessera {
namespace {

/// Copies the instructions that some values need from the computation of a trace into a new program. Values that eager
/// mode has computed are inputs of the program.
class Extractor {
 public:
  Extractor(Trace& trace, const std::string& name, const BackwardOps& backward)
      : trace_(trace),
        backward_(backward),
        mesh_(default_mesh()),
        program_(name),
        builder_(program_.computation("main")) {}

  ExtractedProgram run(const std::vector<ExtractedOutput>& outputs) {
    const Computation& source = trace_.builder().computation();
    mark_needed(source, outputs);
    ids_.assign(source.instructions.size(), -1);
    for (Id id = 0; id < source.size(); ++id)
      if (at(needed_, id)) at(ids_, id) = copy(source[id], id);
    return finish(outputs);
  }

 private:
  void mark_needed(const Computation& source, const std::vector<ExtractedOutput>& outputs) {
    needed_.assign(source.instructions.size(), false);
    for (const auto& output : outputs)
      if (!output.data) at(needed_, output.value.id) = true;
    for (Id id = source.size() - 1; id >= 0; --id) {
      if (!at(needed_, id) || trace_.computed(id)) continue;
      for (const Id operand : source[id].operands) at(needed_, operand) = true;
      for (const Id before : source[id].control_predecessors)
        if (!trace_.computed(before)) at(needed_, before) = true;
    }
  }

  Id copy(const Instruction& from, Id id) {
    if (const auto data = trace_.computed(id)) return input(data).id;
    Instruction made = from;
    if (from.op->role == Role::kParameter) {
      const int input = trace_.input_index(id);
      const auto number = static_cast<std::int64_t>(inputs_.size());
      numbers_[input] = static_cast<int>(number);
      inputs_.push_back(at(trace_.inputs(), input));
      made.attributes = make_attributes(ParameterAttributes{number});
      made.sharding = make_sharding(storage_of(*inputs_.back()));
    }
    for (Id& operand : made.operands) operand = at(ids_, operand);
    std::erase_if(made.control_predecessors, [&](Id before) { return trace_.computed(before) != nullptr; });
    for (Id& before : made.control_predecessors) before = at(ids_, before);
    for (ComputationId& called : made.called) called = copy_computation(called);
    if (!backward_.empty()) made.notes = with_stage(made.notes, id);
    return builder_.append(std::move(made)).id;
  }

  // Notes that name the stage of the op, one object for all ops with equal notes.
  NotesRef with_stage(const NotesRef& notes, Id id) {
    const bool is_backward = std::any_of(backward_.begin(), backward_.end(),
                                         [&](const auto& ops) { return ops.first <= id && id < ops.second; });
    const std::size_t stage = is_backward ? 1 : id < backward_.back().second ? 0 : 2;
    NotesRef& made = staged_notes_[{notes, stage}];
    if (!made) made = with_frontend_attribute(notes, kStageAttribute, std::string(kStageNames[stage]));
    return made;
  }

  ComputationId copy_computation(ComputationId id) {
    if (const auto found = computations_.find(id); found != computations_.end()) return found->second;
    const ComputationRef& from = at(trace_.builder().program().program().computations, id);
    const bool calls = std::any_of(from->instructions.begin(), from->instructions.end(),
                                   [](const Instruction& i) { return !i.called.empty(); });
    ComputationRef made = from;
    if (calls) {
      auto changed = std::make_shared<Computation>(*from);
      for (auto& instruction : changed->instructions)
        for (ComputationId& called : instruction.called) called = copy_computation(called);
      made = std::move(changed);
    }
    return computations_[id] = program_.add(std::move(made));
  }

  // `the new value of w,gradient of w,`, or "" if no result has a name.
  static std::string result_names(const std::vector<ExtractedOutput>& outputs) {
    constexpr std::string_view kGradient = "grad.";
    std::string out;
    bool any = false;
    for (const auto& output : outputs) {
      const std::string name = program_name(output.name);
      if (name.starts_with(kGradient))
        out += "gradient of " + name.substr(kGradient.size());
      else if (!output.name.empty())
        out += "the new value of " + name;
      any = any || !output.name.empty();
      out += ",";
    }
    return any ? out : "";
  }

  Value input(const std::shared_ptr<Node>& data) {
    const auto [entry, is_new] = data_ids_.try_emplace(data.get(), -1);
    if (is_new) {
      const ShardingRef sharding = make_sharding(storage_of(*data));
      entry->second = ops::parameter(builder_, isize(inputs_), data->type, program_name(data->name), sharding).id;
      inputs_.push_back(data);
    }
    return builder_.value(entry->second);
  }

  ExtractedProgram finish(const std::vector<ExtractedOutput>& outputs) {
    builder_.default_notes = nullptr;
    std::vector<Value> values;
    Shardings shardings;
    std::vector<Alias> aliases;
    for (const auto& output : outputs) {
      if (const auto found = numbers_.find(output.takes_over); found != numbers_.end())
        aliases.push_back({{static_cast<std::int64_t>(values.size())}, found->second, {}, false});
      values.push_back(output.data ? input(output.data) : builder_.value(at(ids_, output.value.id)));
      // Results without a sharding are replicated, so that reading them later needs no communication. Open dims are
      // closed: the sharding of a result is known before the program is partitioned.
      shardings.push_back(output.sharding ? output.sharding->closed()
                                          : Sharding::replicated(mesh_, values.back().type().ndim()));
    }
    const Value root = ops::tuple(builder_, values);
    if (std::string names = result_names(outputs); !names.empty())
      builder_.set_notes(root, with_frontend_attribute(nullptr, kResultNamesAttribute, std::move(names)));
    builder_.set_sharding(root, make_shardings(std::move(shardings)));
    const ComputationId entry = program_.add(std::move(builder_), root);
    ExtractedProgram extracted{program_.finish(entry), std::move(inputs_)};
    extracted.program.aliases = std::move(aliases);
    return extracted;
  }

  Trace& trace_;
  const BackwardOps& backward_;
  Mesh mesh_;
  ProgramBuilder program_;
  Builder builder_;
  std::vector<bool> needed_;
  std::vector<Id> ids_;
  std::vector<std::shared_ptr<Node>> inputs_;
  std::unordered_map<int, int> numbers_;          // input of the trace -> parameter
  std::unordered_map<const Node*, Id> data_ids_;  // parameters that are no inputs of the trace
  std::unordered_map<ComputationId, ComputationId> computations_;
  std::map<std::pair<NotesRef, std::size_t>, NotesRef> staged_notes_;
};

}  // namespace

ExtractedProgram extract_program(Trace& trace, const std::vector<ExtractedOutput>& outputs, const std::string& name,
                                 const BackwardOps& backward) {
  ExtractedProgram extracted = Extractor(trace, name, backward).run(outputs);
  extracted.program.num_partitions = device_count();
  std::vector<Mesh> meshes{default_mesh()};
  for (const auto& instruction : extracted.program.entry_computation().instructions)
    if (instruction.sharding)
      for (const auto& leaf : *instruction.sharding)
        if (std::find(meshes.begin(), meshes.end(), leaf.mesh) == meshes.end()) meshes.push_back(leaf.mesh);
  extracted.program.meshes = std::move(meshes);
  return extracted;
}

}  // namespace tessera
