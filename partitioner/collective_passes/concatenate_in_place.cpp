// SPDX-License-Identifier: Apache-2.0
// A concatenation keeps all its parts in memory together with its result. If each part is written into the result when
// it is computed, its memory is free before the next part is computed:
//
//   before:  a = gather(..)  b = gather(..)  c = concatenate(a, b)
//   after:   a = gather(..)  c0 = pad(a)  b = gather(..)  c = update(c0, b)
#include <algorithm>
#include <map>
#include <utility>

#include "pipeline/collective_pipeline.h"
#include "propagation/propagate.h"
#include "tessera/base/text.h"
#include "tessera/ir/builder.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

// A concatenation that is being written. `waiting` holds the operands that are not yet written, in order of
// computation.
struct UpdateChain {
  Id id = -1;
  int dim = 0;
  std::vector<int> waiting;
  Value buffer;
};

class ChainWriter {
 public:
  ChainWriter(const Computation& old, ProgramBuilder& names)
      : old_(old), builder_(names.computation(old.name)), new_ids_(old.instructions.size(), -1) {
    find_chains();
  }
  [[nodiscard]] bool has_chains() const { return !chains_.empty(); }

  Computation run() {
    for (Id id = 0; id < old_.size(); ++id) {
      if (const auto chain = chains_.find(id); chain != chains_.end()) {
        write(chain->second, id);
        at(new_ids_, id) = chain->second.buffer.id;
        continue;
      }
      Instruction copy = old_[id];
      for (Id& operand : copy.operands) operand = at(new_ids_, operand);
      for (Id& before : copy.control_predecessors) before = at(new_ids_, before);
      at(new_ids_, id) = builder_.append(std::move(copy)).id;
      for (auto& [end, chain] : chains_)
        if (end > id && dies_in(id, end)) write(chain, id + 1);
    }
    return std::move(builder_).finish(builder_.value(at(new_ids_, old_.root)));
  }

 private:
  [[nodiscard]] bool dies_in(Id value, Id reader) const {
    const auto& users = at(users_, value);
    return !users.empty() && std::all_of(users.begin(), users.end(), [&](Id user) { return user == reader; });
  }

  // Finds the concatenations with two or more parts that no other instruction reads.
  void find_chains() {
    const OpDef& concatenate = rows::kConcatenate;
    for (Id id = 0; id < old_.size(); ++id) {
      const Instruction& instruction = old_[id];
      if (instruction.op != &concatenate || id == old_.root) continue;
      const auto dies = [&](Id operand) {
        return dies_in(operand, id) && old_[operand].op->role != Role::kParameter &&
               old_[operand].op->role != Role::kConstant;
      };
      if (std::count_if(instruction.operands.begin(), instruction.operands.end(), dies) < 2) continue;
      UpdateChain chain{
          id, static_cast<int>(attributes_as<DimensionsAttributes>(instruction.attributes).dimensions.front()), {}, {}};
      for (int i = 0; i < isize(instruction.operands); ++i) chain.waiting.push_back(i);
      std::stable_sort(chain.waiting.begin(), chain.waiting.end(),
                       [&](int a, int b) { return at(instruction.operands, a) < at(instruction.operands, b); });
      chains_.emplace(id, std::move(chain));
    }
  }

  // Writes the operands that precede `end`.
  void write(UpdateChain& chain, Id end) {
    const Instruction& instruction = old_[chain.id];
    while (!chain.waiting.empty() && at(instruction.operands, chain.waiting.front()) < end) {
      const int operand = chain.waiting.front();
      chain.waiting.erase(chain.waiting.begin());
      std::int64_t start = 0;
      for (int before = 0; before < operand; ++before)
        start += old_[at(instruction.operands, before)].type.dim(chain.dim);
      const Value part = builder_.value(at(new_ids_, at(instruction.operands, operand)));
      chain.buffer = chain.buffer.is_null() ? padded(chain, part, start) : updated(chain, part, start);
      builder_.set_notes(chain.buffer, instruction.notes);
    }
  }
  Value padded(const UpdateChain& chain, Value part, std::int64_t start) {
    const Type& type = old_[chain.id].type;
    std::vector<PaddingDim> padding(static_cast<std::size_t>(type.ndim()));
    at(padding, chain.dim) = {start, type.dim(chain.dim) - start - part.type().dim(chain.dim), 0};
    return ops::pad(part, ops::scalar(builder_, type.dtype(), 0), std::move(padding));
  }
  Value updated(const UpdateChain& chain, Value part, std::int64_t start) {
    std::vector<Value> starts;
    for (int d = 0; d < part.type().ndim(); ++d) starts.push_back(number(d == chain.dim ? start : 0));
    return ops::dynamic_update_slice(chain.buffer, part, starts);
  }
  Value number(std::int64_t value) {
    const auto [entry, is_new] = numbers_.try_emplace(value);
    if (is_new) entry->second = ops::constant(builder_, Literal::scalar(static_cast<std::int32_t>(value)));
    return entry->second;
  }

  const Computation& old_;
  Builder builder_;
  std::vector<Id> new_ids_;
  std::vector<std::vector<Id>> users_ = old_.users();
  std::map<Id, UpdateChain> chains_;
  std::map<std::int64_t, Value> numbers_;
};

}  // namespace

Program concatenate_in_place(const Program& program) {
  const auto used = partitioned_computations(program);
  ProgramBuilder names("");
  Program out = program;
  for (ComputationId c = 0; c < isize(program.computations); ++c) {
    if (!at(used, c)) continue;
    ChainWriter writer(program[c], names);
    if (writer.has_chains()) at(out.computations, c) = std::make_shared<const Computation>(std::move(writer).run());
  }
  return out;
}

}  // namespace tessera
