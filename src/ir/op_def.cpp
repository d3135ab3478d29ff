// SPDX-License-Identifier: Apache-2.0
#include "tessera/ir/op_def.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/text.h"

namespace tessera {

OpView view_of(const Program& program, const Computation& computation, const Instruction& instruction) {
  OpView view{*instruction.op, {}, instruction.type, instruction.attributes, {}};
  for (const Id operand : instruction.operands) view.operands.push_back(computation[operand].type);
  for (const ComputationId id : instruction.called) view.called.push_back(at(program.computations, id));
  return view;
}

double flops_of(const OpView& view) {
  if (view.op.flops != nullptr) return view.op.flops(view);
  const bool counts = view.op.elementwise && view.result.is_array() && is_float(view.result.dtype());
  return counts ? static_cast<double>(view.result.element_count()) : 0;
}

bool has_side_effect(const Instruction& instruction) {
  return instruction.op->side_effect != nullptr && instruction.op->side_effect(instruction.attributes);
}

bool has_side_effect(const Instruction& instruction, const std::vector<bool>& with_effects) {
  return has_side_effect(instruction) || std::any_of(instruction.called.begin(), instruction.called.end(),
                                                     [&](ComputationId callee) { return at(with_effects, callee); });
}

std::vector<bool> computations_with_effects(const Program& program) {
  std::vector<bool> out;
  for (const ComputationRef& computation : program.computations) {  // callees come first
    const auto& all = computation->instructions;
    out.push_back(std::any_of(all.begin(), all.end(), [&](const Instruction& i) { return has_side_effect(i, out); }));
  }
  return out;
}

namespace {

std::string factor_name(int factor) {
  constexpr std::string_view kLetters = "ijklmnopqrstuvwxyzabcdefgh";
  if (factor < isize(kLetters)) return std::string(1, at(kLetters, factor));
  return fmt::format("z_{}", factor);
}

std::string tensor_text(const TensorFactors& tensor) {
  std::vector<std::string> dims;
  for (const auto& dim : tensor) {
    std::string text;
    for (const int factor : dim) text += factor_name(factor);
    dims.push_back(text.empty() ? "1" : text);
  }
  return fmt::format("[{}]", fmt::join(dims, ","));
}

}  // namespace

std::size_t FactorMap::hash() const {
  std::size_t seed = factors.size();
  for (const Factor& factor : factors)
    seed = hash_mix(hash_mix(seed, static_cast<std::size_t>(factor.size)), static_cast<std::size_t>(factor.kind));
  for (const auto* tensors : {&operands, &results})
    for (const auto& tensor : *tensors) {
      for (const auto& dim : tensor) {
        for (const int factor : dim) seed = hash_mix(seed, static_cast<std::size_t>(factor));
        seed = hash_mix(seed, dim.size());
      }
      seed = hash_mix(seed, tensor.size());
    }
  return seed;
}

std::string FactorMap::str() const {
  std::vector<std::string> in;
  std::vector<std::string> out;
  for (const auto& tensor : operands) in.push_back(tensor_text(tensor));
  for (const auto& tensor : results) out.push_back(tensor_text(tensor));
  std::string text = fmt::format("({})->({})", fmt::join(in, ","), fmt::join(out, ","));
  constexpr std::pair<FactorKind, std::string_view> kKinds[] = {
      {FactorKind::kReduce, "reduce"}, {FactorKind::kPermute, "permute"}, {FactorKind::kBlocked, "blocked"}};
  for (const auto& [kind, word] : kKinds) {
    std::vector<std::string> names;
    for (int f = 0; f < isize(factors); ++f)
      if (at(factors, f).kind == kind) names.push_back(factor_name(f));
    if (!names.empty()) text += fmt::format(" {}{{{}}}", word, fmt::join(names, ","));
  }
  return text;
}

OpTable::OpTable(std::vector<const OpDef*> rows, std::string_view missing) : rows_(std::move(rows)), missing_(missing) {
  for (const OpDef* row : rows_) by_name_.emplace_back(row->name, row);
  std::sort(by_name_.begin(), by_name_.end());
  const auto twice = std::adjacent_find(by_name_.begin(), by_name_.end(),
                                        [](const auto& a, const auto& b) { return a.first == b.first; });
  ensure(twice == by_name_.end(), "two rows of the op table are named {}", twice == by_name_.end() ? "" : twice->first);
}

const OpDef* OpTable::find(std::string_view name) const {
  const auto found = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                      [](const auto& item, std::string_view key) { return item.first < key; });
  return found != by_name_.end() && found->first == name ? found->second : nullptr;
}

const OpDef& OpTable::get(std::string_view name) const {
  const OpDef* row = find(name);
  if (row != nullptr) return *row;
  const auto missing = split(missing_, ' ');
  require(std::find(missing.begin(), missing.end(), name) == missing.end(),
          "HLO op \"{}\" is not supported yet; a dump from before optimization has fewer such ops", name);
  std::vector<std::string> known;
  for (const auto& item : by_name_) known.emplace_back(item.first);
  fail("unknown op \"{}\"{}", name, suggest_name(name, known));
}

}  // namespace tessera
