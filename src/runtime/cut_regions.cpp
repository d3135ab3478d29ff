// SPDX-License-Identifier: Apache-2.0
// The rewriting of regions into parts.
#include <algorithm>
#include <functional>
#include <queue>

#include "cut_region.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tessera/passes/passes.h"

namespace tessera {
namespace {

// In which order instructions and regions come: the order there was, a region standing where its last member stood.
class UnitOrder {
 public:
  UnitOrder(const Program& program, const Computation& computation, const std::vector<CutPlan>& plans)
      : computation_(computation) {
    unit_.resize(computation.instructions.size());
    for (Id id = 0; id < computation.size(); ++id) unit_[static_cast<std::size_t>(id)] = id;
    for (const CutPlan& plan : plans) {
      const Id last = plan.region.cut().rbegin()->first;
      for (const auto& [id, dim] : plan.region.cut()) {
        disjoint_ = disjoint_ && at(unit_, id) == id;
        unit_[static_cast<std::size_t>(id)] = last;
      }
    }
    find_edges(computations_with_effects(program));
  }

  /// Units by their last member; fewer than there are where some wait for one another.
  [[nodiscard]] std::optional<std::vector<Id>> run() const {
    if (!disjoint_) return std::nullopt;
    std::vector<int> missing(unit_.size(), 0);
    for (const auto& readers : readers_)
      for (const Id reader : readers) ++at(missing, reader);
    std::priority_queue<Id, std::vector<Id>, std::greater<>> ready;
    std::size_t count = 0;
    for (Id id = 0; id < computation_.size(); ++id)
      if (at(unit_, id) == id) {
        ++count;
        if (at(missing, id) == 0) ready.push(id);
      }
    std::vector<Id> order;
    while (!ready.empty()) {
      const Id unit = ready.top();
      ready.pop();
      order.push_back(unit);
      for (const Id reader : at(readers_, unit))
        if (--at(missing, reader) == 0) ready.push(reader);
    }
    return order.size() == count ? std::optional(std::move(order)) : std::nullopt;
  }

 private:
  void find_edges(const std::vector<bool>& with_effects) {
    readers_.resize(unit_.size());
    Id last_effect = -1;
    for (Id id = 0; id < computation_.size(); ++id) {
      const Instruction& instruction = computation_[id];
      for (const Id operand : instruction.operands) add_edge(operand, id);
      for (const Id before : instruction.control_predecessors) add_edge(before, id);
      if (!has_side_effect(instruction, with_effects)) continue;
      if (last_effect >= 0) add_edge(last_effect, id);
      last_effect = id;
    }
  }
  void add_edge(Id from, Id to) {
    if (at(unit_, from) != at(unit_, to)) at(readers_, at(unit_, from)).push_back(at(unit_, to));
  }

  const Computation& computation_;
  std::vector<Id> unit_;  // by its last member
  std::vector<std::vector<Id>> readers_;
  bool disjoint_ = true;
};

class Cutter {
 public:
  Cutter(ComputationRewriter& rewriter, const std::vector<CutPlan>& plans)
      : rewriter_(rewriter), from_(rewriter.from()) {
    for (const CutPlan& plan : plans) by_last_[plan.region.cut().rbegin()->first] = &plan;
  }

  void run(const std::vector<Id>& order) {
    for (const Id unit : order) {
      if (const auto found = by_last_.find(unit); found != by_last_.end())
        add_region(*found->second);
      else if (from_[unit].op->role != Role::kParameter)
        rewriter_.keep(unit);
    }
  }

 private:
  static Value sum(const std::vector<Value>& values) {
    Value out = values.front();
    for (std::size_t i = 1; i < values.size(); ++i) out = ops::add(out, values[i]);
    return out;
  }
  void add_region(const CutPlan& plan) {
    std::map<Id, std::vector<Value>> made;  // of what leaves, by part
    for (std::int64_t part = 0; part < plan.parts; ++part) add_part(plan, part, made);
    for (const auto& [id, values] : made) {
      const int dim = plan.region.cut().at(id);
      rewriter_.replace(id, dim == CutRegion::kSummed ? sum(values) : ops::concatenate(values, dim));
    }
  }
  void add_part(const CutPlan& plan, std::int64_t part, std::map<Id, std::vector<Value>>& made) {
    Builder& builder = rewriter_.builder();
    std::map<Id, Value> here;
    const auto operand_of = [&](Id operand) {
      if (const auto found = here.find(operand); found != here.end()) return found->second;
      const auto sliced = plan.region.sliced().find(operand);
      if (sliced == plan.region.sliced().end()) return rewriter_.mapped(operand);
      const Value whole = rewriter_.mapped(operand);
      const std::int64_t size = whole.type().dim(sliced->second) / plan.parts;
      return here[operand] = ops::slice_dim(whole, sliced->second, part * size, (part + 1) * size);
    };
    for (const auto& [id, dim] : plan.region.cut()) {
      Instruction instruction = from_[id];
      for (Id& operand : instruction.operands) operand = operand_of(operand).id;
      for (ComputationId& callee : instruction.called) callee = rewriter_.callee(callee);
      instruction.sharding = nullptr;
      if (dim != CutRegion::kSummed) {
        Dims dims = instruction.type.dims();
        at(dims, dim) /= plan.parts;
        instruction.type = Type::array(instruction.type.dtype(), std::move(dims));
      }
      const Value value = here[id] = builder.append(std::move(instruction));
      if (plan.region.leaves(id)) made[id].push_back(value);
    }
  }

  ComputationRewriter& rewriter_;
  const Computation& from_;
  std::map<Id, const CutPlan*> by_last_;
};

}  // namespace

std::int64_t equal_parts(std::int64_t size, std::int64_t bytes, std::int64_t most_bytes) {
  constexpr std::int64_t kMostParts = 16;
  std::int64_t most = 1;
  for (std::int64_t parts = 2; parts <= std::min(size, kMostParts); ++parts) {
    if (size % parts != 0) continue;
    if (bytes / parts <= most_bytes) return parts;
    most = parts;
  }
  return most;
}

std::optional<Program> cut_regions(const Program& program, const std::vector<CutPlan>& plans) {
  const Computation* entry = &program.entry_computation();
  const auto order = UnitOrder(program, *entry, plans).run();
  if (!order) return std::nullopt;
  return remove_dead_code(rewrite_computations(
      program, [&](ComputationRewriter& rewriter) { Cutter(rewriter, plans).run(*order); },
      [&](const Computation& computation) { return &computation == entry; }));
}

}  // namespace tessera
