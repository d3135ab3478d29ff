// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/tracing/dump.h"

#include <fmt/format.h>

#include "execution/execute.h"
#include "tessera/base/text.h"
#include "tessera/ir/text.h"
#include "tessera/ops/structural.h"
#include "tessera/sharding/hlo_sharding.h"
#include "tracing/error_context.h"

namespace tessera {
namespace {

ExtractedProgram graph_of(std::string_view dump, const std::vector<Tensor>& tensors) {
  Trace& current = trace();
  current.require_no_function(fmt::format("{} is called", dump));
  std::vector<ExtractedOutput> outputs;
  for (const Tensor& tensor : tensors) {
    const std::shared_ptr<Node>& node = tensor.impl().node;
    const Id id = tensor.impl().stack ? -1 : current.entry_id(*node);
    require(id >= 0 || tensor.impl().stack || node->has_data() || node->is_deferred(),
            "{}: {} has no value: the step that computes it failed", dump, [&] { return what_is(tensor); });
    ExtractedOutput output{{}, node->sharding, -1};
    if (id >= 0)
      output.value = current.builder().value(id);
    else
      output.data = node;
    outputs.push_back(std::move(output));
  }
  return extract_program(current, outputs, "graph");
}

/// The instructions of a graph except its root, a tuple of the results. Their numbers are their ids.
class GraphText {
 public:
  GraphText(std::string_view dump, const std::vector<Tensor>& tensors)
      : graph_(graph_of(dump, tensors)), entry_(graph_.program.entry_computation()), count_(entry_.root) {
    ensure(count_ + 1 == entry_.size(), "the root of a graph is not its last instruction");
  }

  [[nodiscard]] std::string ir() const {
    std::string out = "IR {\n";
    for (Id id = 0; id < count_; ++id) {
      std::vector<std::string> operands;
      for (const Id operand : entry_[id].operands) operands.push_back(fmt::format("%{}", operand));
      out += fmt::format("  %{} = {} {}({})", id, entry_[id].type.str(), name(id), fmt::join(operands, ", "));
      for (const TextAttribute& attribute : attributes(id))
        out += fmt::format(", {}={}", attribute.name, attribute.text);
      out += "\n";
    }
    return out + "}\n";
  }

  [[nodiscard]] std::string dot() const {
    std::string out = "digraph G {\n  node [shape=box];\n";
    for (Id id = 0; id < count_; ++id) {
      std::string label = fmt::format("%{} {}\n{}", id, name(id), entry_[id].type.str());
      for (const TextAttribute& attribute : attributes(id))
        label += fmt::format("\n{}={}", attribute.name, attribute.text);
      out += fmt::format("  n{} [label={}{}];\n", id, quote(label), roots(id).empty() ? "" : ", peripheries=2");
      const auto& operands = entry_[id].operands;
      for (int k = 0; k < isize(operands); ++k)
        out += fmt::format("  n{} -> n{}{};\n", at(operands, k), id,
                           operands.size() > 1 ? fmt::format(" [label=\"{}\"]", k) : "");
    }
    return out + "}\n";
  }

 private:
  [[nodiscard]] std::string name(Id id) const {
    const OpDef& op = *entry_[id].op;
    if (op.role == Role::kParameter) return "xla::device_data";
    if (op.role == Role::kConstant) return "prim::Constant";
    return fmt::format("xla::{}", op.name);
  }

  // The positions of the instruction among the results.
  [[nodiscard]] std::vector<int> roots(Id id) const {
    const auto& results = entry_[entry_.root].operands;
    std::vector<int> out;
    for (int k = 0; k < isize(results); ++k)
      if (at(results, k) == id) out.push_back(k);
    return out;
  }

  [[nodiscard]] std::vector<TextAttribute> attributes(Id id) const {
    const Instruction& instruction = entry_[id];
    std::vector<TextAttribute> out = own_attributes(instruction);
    for (int k = 0; k < isize(instruction.called); ++k) {
      const auto& names = instruction.op->called;
      const bool has_one_each = names.size() == instruction.called.size();
      out.push_back(
          {has_one_each ? std::string(at(names, k)) : "calls", "%" + graph_.program[at(instruction.called, k)].name});
    }
    if (instruction.sharding && !(instruction.sharding->size() == 1 && instruction.sharding->front().is_replicated()))
      out.push_back({"sharding", hlo_sharding_text(*instruction.sharding, instruction.type.is_tuple())});
    for (const int k : roots(id)) out.push_back({"ROOT", std::to_string(k)});
    return out;
  }

  [[nodiscard]] std::vector<TextAttribute> own_attributes(const Instruction& instruction) const {
    if (instruction.op->role == Role::kConstant) {
      const Literal* value = known_constant(instruction);
      return {{"value", value != nullptr ? value->str() : "{...}"}};
    }
    if (instruction.op->role != Role::kParameter)
      return instruction.attributes ? instruction.attributes->texts() : std::vector<TextAttribute>{};
    const auto number = attributes_as<ParameterAttributes>(instruction.attributes).number;
    const std::string& variable = at(graph_.inputs, number)->name;
    std::vector<TextAttribute> out{{"device", device().str()}};
    if (!variable.empty()) out.push_back({"name", variable});
    return out;
  }

  ExtractedProgram graph_;
  const Computation& entry_;
  Id count_;
};

}  // namespace

std::string dump_ir(const std::vector<Tensor>& tensors) { return GraphText("dump_ir", tensors).ir(); }
std::string dump_hlo(const std::vector<Tensor>& tensors) {
  return print_program(graph_of("dump_hlo", tensors).program);
}
std::string dump_dot(const std::vector<Tensor>& tensors) { return GraphText("dump_dot", tensors).dot(); }

}  // namespace tessera
