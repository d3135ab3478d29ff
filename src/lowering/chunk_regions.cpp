// SPDX-License-Identifier: Apache-2.0
// Rewrites regions into chunks.
#include <algorithm>
#include <boost/container/flat_map.hpp>
#include <boost/container/flat_set.hpp>
#include <functional>
#include <map>
#include <queue>

#include "chunk_region.h"
#include "tessera/base/text.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"
#include "tessera/passes/passes.h"

namespace tessera {
namespace {

Id last_of(const ChunkPlan& plan) { return plan.front().region.dims().rbegin()->first; }

// The order of instructions and regions: the previous order, with each region at the place of its last member.
class UnitOrder {
 public:
  UnitOrder(const Program& program, const Computation& computation, const std::vector<ChunkPlan>& plans)
      : computation_(computation) {
    unit_.resize(computation.instructions.size());
    for (Id id = 0; id < computation.size(); ++id) unit_[static_cast<std::size_t>(id)] = id;
    for (const ChunkPlan& plan : plans)
      for (const auto& [id, dim] : plan.front().region.dims()) {
        if (plan.front().region.is_own(id)) continue;
        disjoint_ = disjoint_ && at(unit_, id) == id;
        unit_[static_cast<std::size_t>(id)] = last_of(plan);
      }
    find_edges(computations_with_effects(program));
    for (const ChunkPlan& plan : plans)
      for (const Chunking& chunking : plan)
        for (const auto& [id, dim] : chunking.region.dims())
          for (const Id operand : computation[id].operands) add_edge(operand, last_of(plan));
  }

  /// Units by their last member; nullopt if they depend on each other cyclically.
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
  std::vector<Id> unit_;  // by id: the last member of its unit
  std::vector<std::vector<Id>> readers_;
  bool disjoint_ = true;
};

// Emits the chunks of one region, and combines their results.
class Parts {
 public:
  using ValueById = boost::container::flat_map<Id, Value>;
  Parts(ComputationRewriter& rewriter, const ChunkPlan& plan)
      : rewriter_(rewriter), from_(rewriter.from()), plan_(plan) {
    for (const Chunking& chunking : plan)
      for (const auto& [id, dim] : chunking.region.dims()) members_.insert(id);
  }
  /// The results of the region, by member.
  ValueById run() { return along(0); }

 private:
  // Emits level `level` of the plan and those after it, for the current chunk of the previous levels.
  ValueById along(std::size_t level) {
    if (level == plan_.size()) return part();
    const Chunking& chunking = plan_[level];
    const std::int64_t size = chunking.region.size();
    const std::int64_t step = ceil_div(size, chunking.parts);
    boost::container::flat_map<Id, std::vector<Value>> made;
    for (std::int64_t start = 0; start < size; start += step) {
      ranges_.emplace_back(start, std::min(start + step, size));
      for (const auto& [id, value] : along(level + 1)) add(made[id], value, chunking.region.dims().at(id));
      ranges_.pop_back();
    }
    ValueById out;
    for (const auto& [id, values] : made) out[id] = combined(id, values, level);
    return out;
  }
  // Summands are added immediately, so that products can add to the sum in place.
  static void add(std::vector<Value>& values, Value value, int dim) {
    if (dim == ChunkRegion::kSummed && !values.empty())
      values.front() = ops::add(values.front(), value);
    else
      values.push_back(value);
  }
  Value combined(Id id, const std::vector<Value>& values, std::size_t level) const {
    const int dim = plan_[level].region.dims().at(id);
    if (dim != ChunkRegion::kSummed) return ops::concatenate(values, dim);
    const bool is_sum =
        std::none_of(plan_.begin(), plan_.begin() + static_cast<std::ptrdiff_t>(level),
                     [&](const Chunking& outer) { return outer.region.dims().at(id) == ChunkRegion::kSummed; });
    const DType dtype = from_[id].type.dtype();
    return is_sum && values.front().type().dtype() != dtype ? ops::convert(values.front(), dtype) : values.front();
  }

  ValueById part() {
    here_.clear();
    ValueById out;
    for (const Id id : members_) {
      here_[id] = member(id);
      if (const ChunkRegion& region = plan_.front().region; region.contains(id) && region.leaves(id))
        out[id] = here_.at(id);
    }
    return out;
  }
  Value member(Id id) {
    Instruction instruction = from_[id];
    for (std::size_t i = 0; i < instruction.operands.size(); ++i) instruction.operands[i] = operand(id, i).id;
    for (ComputationId& callee : instruction.called) callee = rewriter_.callee(callee);
    instruction.sharding = nullptr;
    Dims dims = instruction.type.dims();
    DType dtype = instruction.type.dtype();
    std::int64_t first = 0;
    for (std::size_t level = 0; level < plan_.size(); ++level) {
      const int dim = chunked_dim(level, id);
      if (dim == ChunkRegion::kSummed && is_summed_wide(dtype)) dtype = DType::kF32;
      if (dim < 0) continue;
      const auto [start, limit] = range(level, from_[id].type, dim);
      at(dims, dim) = limit - start;
      if (instruction.op == &rows::kIota && attributes_as<IotaAttributes>(instruction.attributes).iota_dimension == dim)
        first = start;
    }
    instruction.type = Type::array(dtype, std::move(dims));
    const Value value = rewriter_.builder().append(std::move(instruction));
    return first == 0 ? value
                      : ops::add(value, ops::full(rewriter_.builder(), value.type(), static_cast<double>(first)));
  }
  Value operand(Id reader, std::size_t place) {
    const Id id = from_[reader].operands[place];
    std::vector<int> dims;
    bool is_here = members_.contains(id);
    for (std::size_t level = 0; level < plan_.size(); ++level) {
      const ChunkRegion& region = plan_[level].region;
      dims.push_back(region.contains(reader) ? region.reads(reader)[place] : ChunkRegion::kUnchunked);
      is_here = is_here && chunked_dim(level, id) == dims.back();
    }
    return is_here ? here_.at(id) : sliced(id, dims);
  }
  // A slice of an outside value, created only once.
  Value sliced(Id id, const std::vector<int>& dims) {
    Value source = rewriter_.mapped(id);
    std::vector<SliceRange> ranges;
    for (int d = 0; d < source.type().ndim(); ++d) ranges.push_back({0, source.type().dim(d)});
    std::vector<std::int64_t> key{id};
    for (std::size_t level = 0; level < plan_.size(); ++level) {
      if (dims[level] < 0) continue;
      const auto [start, limit] = range(level, source.type(), dims[level]);
      at(ranges, dims[level]) = {start, limit};
      key.insert(key.end(), {dims[level], start});
    }
    if (key.size() == 1) return source;
    const auto [found, is_new] = slices_.emplace(std::move(key), Value{});
    if (is_new) found->second = ops::slice(source, std::move(ranges));
    return found->second;
  }
  [[nodiscard]] int chunked_dim(std::size_t level, Id id) const {
    const ChunkRegion& region = plan_[level].region;
    return region.contains(id) ? region.dims().at(id) : ChunkRegion::kUnchunked;
  }
  // The range of the current chunk of a dim.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> range(std::size_t level, const Type& type, int dim) const {
    const std::int64_t inner = type.dim(dim) / plan_[level].region.size();
    return {ranges_[level].first * inner, ranges_[level].second * inner};
  }

  ComputationRewriter& rewriter_;
  const Computation& from_;
  const ChunkPlan& plan_;
  boost::container::flat_set<Id> members_;
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges_;  // by level: the current chunk
  ValueById here_;                                             // members of the current chunk
  std::map<std::vector<std::int64_t>, Value> slices_;
};

class RegionChunker {
 public:
  RegionChunker(ComputationRewriter& rewriter, const std::vector<ChunkPlan>& plans)
      : rewriter_(rewriter), from_(rewriter.from()) {
    for (const ChunkPlan& plan : plans) by_last_[last_of(plan)] = &plan;
  }

  void run(const std::vector<Id>& order) {
    for (const Id unit : order) {
      if (const auto found = by_last_.find(unit); found != by_last_.end())
        for (const auto& [id, value] : Parts(rewriter_, *found->second).run()) rewriter_.replace(id, value);
      else if (from_[unit].op->role != Role::kParameter)
        rewriter_.keep(unit);
    }
  }

 private:
  ComputationRewriter& rewriter_;
  const Computation& from_;
  std::map<Id, const ChunkPlan*> by_last_;
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

bool add_plan(const Program& program, std::vector<ChunkPlan>& plans, ChunkPlan plan) {
  plans.push_back(std::move(plan));
  if (UnitOrder(program, program.entry_computation(), plans).run()) return true;
  plans.pop_back();
  return false;
}

Program chunk_regions(const Program& program, const std::vector<ChunkPlan>& plans) {
  const Computation* entry = &program.entry_computation();
  const auto order = UnitOrder(program, *entry, plans).run();
  ensure(order.has_value(), "regions to be chunked wait for one another");
  return remove_dead_code(rewrite_computations(
      program, [&](ComputationRewriter& rewriter) { RegionChunker(rewriter, plans).run(*order); },
      [&](const Computation& computation) { return &computation == entry; }));
}

}  // namespace tessera
