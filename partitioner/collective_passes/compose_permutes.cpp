// SPDX-License-Identifier: Apache-2.0
#include "collective_passes/compose_permutes.h"

#include <algorithm>
#include <map>
#include <optional>

#include "reshard_insertion/insert_reshards.h"
#include "tessera/base/text.h"
#include "tessera/ops/collectives.h"

namespace tessera {
namespace {

using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

// Whether the partitioner inserted this permute; permutes that the user wrote in a region stay unchanged.
bool is_permute(const Instruction& instruction) {
  return instruction.op->collective == CollectiveKind::kPermute && instruction.operands.size() == 1 &&
         instruction.frontend_attribute(kReasonAttribute) != nullptr && instruction.control_predecessors.empty();
}

const Pairs& pairs_of(const Instruction& permute) {
  return attributes_as<PermuteAttributes>(permute.attributes).source_target_pairs.pairs;
}

// The composition of two permutes; null if a device would send a value that the first permute does not give it.
std::optional<Pairs> composed(const Pairs& first, const Pairs& second) {
  std::map<std::int64_t, std::int64_t> source_of;
  for (const auto& [source, target] : first) source_of[target] = source;
  Pairs out;
  for (const auto& [source, target] : second) {
    if (!source_of.contains(source)) return std::nullopt;
    out.emplace_back(source_of.at(source), target);
  }
  std::sort(out.begin(), out.end());
  return out;
}

class Composer {
 public:
  explicit Composer(const Computation& from) : out_(std::make_shared<Computation>(from)) {
    uses_.assign(from.instructions.size(), 0);
    is_uniform_.assign(from.instructions.size(), false);
    ++at(uses_, from.root);
    for (const Instruction& instruction : from.instructions) {
      for (const Id operand : instruction.operands) ++at(uses_, operand);
      for (const Id before : instruction.control_predecessors) at(uses_, before) += 2;
    }
  }

  ComputationRef run() {
    for (Id id = 0; id < out_->size(); ++id) {
      const Instruction& instruction = at(out_->instructions, id);
      at(is_uniform_, id) = is_uniform(instruction);
      if (is_permute(instruction)) compose(id);
    }
    return out_;
  }

 private:
  // Whether the value is the same on every device.
  bool is_uniform(const Instruction& instruction) const {
    if (instruction.op->role == Role::kConstant) return true;
    return instruction.op->role == Role::kPlain && !has_side_effect(instruction) &&
           std::all_of(instruction.operands.begin(), instruction.operands.end(),
                       [&](Id id) { return at(is_uniform_, id); });
  }

  // The only operand that differs between devices; -1 if there are several or none.
  Id moved_operand(const Instruction& instruction) const {
    Id moved = -1;
    if (instruction.op->role != Role::kPlain || has_side_effect(instruction) || !instruction.called.empty() ||
        !instruction.control_predecessors.empty())
      return -1;
    for (const Id operand : instruction.operands) {
      if (at(is_uniform_, operand)) continue;
      if (moved >= 0) return -1;
      moved = operand;
    }
    return moved;
  }

  void compose(Id second) {
    std::vector<Id> between;
    Id first = at(out_->instructions, second).operands.front();
    while (first >= 0 && at(uses_, first) == 1 && !is_permute(at(out_->instructions, first))) {
      between.push_back(first);
      first = moved_operand(at(out_->instructions, first));
    }
    if (first < 0 || at(uses_, first) != 1 || !is_permute(at(out_->instructions, first))) return;
    Instruction& late = at(out_->instructions, second);
    const auto pairs = composed(pairs_of(at(out_->instructions, first)), pairs_of(late));
    if (!pairs) return;
    auto attributes = attributes_as<PermuteAttributes>(late.attributes);
    attributes.source_target_pairs.pairs = *pairs;
    late.attributes = make_attributes(std::move(attributes));
    const Id source = at(out_->instructions, first).operands.front();
    const Id reader = between.empty() ? second : between.back();
    for (Id& operand : at(out_->instructions, reader).operands)
      if (operand == first) operand = source;
    at(uses_, first) = 0;
    for (const Id id : between) {
      at(out_->instructions, id).sharding = nullptr;  // the sharding was that after the first permute
      for (const Id operand : at(out_->instructions, id).operands) forget_placement(operand);
    }
  }

  // Removes the shardings of values that are the same on every device.
  void forget_placement(Id id) {
    Instruction& instruction = at(out_->instructions, id);
    if (!at(is_uniform_, id) || !instruction.sharding) return;
    instruction.sharding = nullptr;
    for (const Id operand : instruction.operands) forget_placement(operand);
  }

  std::shared_ptr<Computation> out_;
  std::vector<int> uses_;
  std::vector<bool> is_uniform_;
};

}  // namespace

Program compose_permutes(const Program& program) {
  Program out = program;
  for (ComputationId c = 0; c < isize(program.computations); ++c) {
    const auto& instructions = program[c].instructions;
    if (std::count_if(instructions.begin(), instructions.end(), is_permute) > 1)
      at(out.computations, c) = Composer(program[c]).run();
  }
  return out;
}

}  // namespace tessera
