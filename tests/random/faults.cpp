// SPDX-License-Identifier: Apache-2.0
#include "random/faults.h"

#include <algorithm>
#include <map>

#include "tessera/base/text.h"
#include "tessera/ir/builder.h"
#include "tessera/ops/collectives.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/structural.h"
#include "tessera/ops/windows.h"

namespace tessera::testing {

/// An instruction of a partitioned program.
struct FaultSite {
  const Computation& computation;
  const std::vector<bool>& positional;  // for each value: computed from partition-id and constants only
  const Instruction& instruction;
  const Instruction* global;  // the instruction of the same name in the global program, or null
  Dice& dice;

  [[nodiscard]] bool is(std::string_view op) const { return instruction.op->name == op; }
  /// Returns true if the partitioner inserted the instruction.
  [[nodiscard]] bool is_inserted(std::string_view op) const { return is(op) && global == nullptr; }
  [[nodiscard]] const Instruction& operand(int i) const { return computation[at(instruction.operands, i)]; }
  [[nodiscard]] bool is_positional(int i) const { return at(positional, at(instruction.operands, i)); }
};

namespace {

using Site = FaultSite;
using Values = std::vector<Value>;

Value again(Builder& builder, const Site& site, const Values& operands, Attributes attributes) {
  return builder.emit(*site.instruction.op, operands, std::move(attributes),
                      {.type = site.instruction.type, .called = site.instruction.called});
}

Value plus_one(Value x) { return ops::add(x, ops::full(*x.builder, x.type(), 1)); }

// ---- masks -----------------------------------------------------------------------------------------------------------

bool is_mask(const Site& site) {
  return site.is_inserted("select") && site.is_positional(0) && site.operand(0).type.ndim() > 0;
}
bool is_bound(const Site& site) {
  return site.is_inserted("compare") && site.operand(0).op->name == "iota" && site.is_positional(1);
}
Value without_mask(Builder&, const Site&, const Values& v) { return v[1]; }
Value wrong_fill(Builder& builder, const Site&, const Values& v) {
  const DType dtype = v[1].type().dtype();
  if (is_complex(dtype) || is_narrow(dtype)) return {};
  const Value fill = dtype == DType::kPred ? ops::logical_not(v[2]) : ops::full(builder, v[2].type(), 3);
  return ops::select(v[0], v[1], fill);
}
Value longer_mask(Builder&, const Site&, const Values& v) { return ops::compare(v[0], v[1], CompareDirection::kLe); }
Value shorter_mask(Builder&, const Site&, const Values& v) {
  return ops::compare(plus_one(v[0]), v[1], CompareDirection::kLt);
}
bool is_mask_index(const Site& site) { return site.is_inserted("iota") && site.instruction.type.ndim() > 1; }
Value along_another_dim(Builder& builder, const Site& site, const Values&) {
  const auto dim = attributes_as<IotaAttributes>(site.instruction.attributes).iota_dimension;
  return ops::iota(builder, site.instruction.type, static_cast<int>((dim + 1) % site.instruction.type.ndim()));
}
bool is_counted_once(const Site& site) {
  return site.is_inserted("select") && site.is_positional(0) && site.operand(0).type.ndim() == 0;
}

// ---- positions -------------------------------------------------------------------------------------------------------

bool is_start(const Site& site) {
  return site.is_inserted("multiply") && site.instruction.type.ndim() == 0 && site.is_positional(0);
}
Value no_start(Builder& builder, const Site& site, const Values&) {
  return ops::full(builder, site.instruction.type, 0);
}
Value next_start(Builder&, const Site&, const Values& v) { return plus_one(ops::multiply(v[0], v[1])); }
bool is_digit(const Site& site) { return site.is_inserted("remainder") && site.is_positional(0); }
bool is_stride(const Site& site) { return site.is_inserted("divide") && site.is_positional(0); }
Value first(Builder&, const Site&, const Values& v) { return v[0]; }
bool is_shifted_ramp(const Site& site) {
  return site.is_inserted("add") && site.operand(0).op->name == "iota" && site.instruction.type.ndim() > 0;
}
bool is_inserted_clamp(const Site& site) { return site.is_inserted("clamp"); }
Value unclamped(Builder&, const Site&, const Values& v) { return v[1]; }
Value later_bound(Builder&, const Site&, const Values& v) { return ops::clamp(v[0], v[1], plus_one(v[2])); }

// ---- collectives -----------------------------------------------------------------------------------------------------

template <class F>
Attributes with_groups(const Site& site, F change) {
  auto attributes = attributes_as<CollectiveAttributes>(site.instruction.attributes);
  change(attributes.replica_groups.groups);
  return make_attributes(attributes);
}
bool is_all_reduce(const Site& site) { return site.is_inserted("all-reduce"); }
Value maximum_instead(Builder& builder, const Site& site, const Values& v) {
  const DType dtype = v[0].type().dtype();
  if (is_complex(dtype) || dtype == DType::kPred) return {};
  const auto& called = builder.program().program()[site.instruction.called[0]];
  if (reduction_of(called) != Reduction::kSum) return {};
  auto attributes = attributes_as<CollectiveAttributes>(site.instruction.attributes);
  return ops::all_reduce(v[0], Reduction::kMax, attributes.replica_groups, attributes.channel_id);
}
Value exchanged_groups(Builder& builder, const Site& site, const Values& v) {
  bool several = false;
  const Attributes changed = with_groups(site, [&](auto& groups) {
    several = groups.size() > 1;
    if (several) std::swap(groups[0].back(), groups[1].front());
  });
  return several ? again(builder, site, v, changed) : Value{};
}
Value turned_groups(Builder& builder, const Site& site, const Values& v) {
  return again(builder, site, v, with_groups(site, [](auto& groups) {
                 for (auto& group : groups) std::rotate(group.begin(), group.begin() + 1, group.end());
               }));
}
template <class F>
Value with_pairs(Builder& builder, const Site& site, const Values& v, F change) {
  auto attributes = attributes_as<PermuteAttributes>(site.instruction.attributes);
  auto& pairs = attributes.source_target_pairs.pairs;
  return change(pairs) ? again(builder, site, v, make_attributes(attributes)) : Value{};
}
Value lost_pair(Builder& builder, const Site& site, const Values& v) {
  return with_pairs(builder, site, v, [&](auto& pairs) {
    if (pairs.size() < 2) return false;
    pairs.erase(pairs.begin() + site.dice.below(isize(pairs)));
    return true;
  });
}
Value exchanged_sources(Builder& builder, const Site& site, const Values& v) {
  return with_pairs(builder, site, v, [&](auto& pairs) {
    if (pairs.size() < 2) return false;
    const auto i = static_cast<std::size_t>(site.dice.below(isize(pairs) - 1));
    std::swap(pairs[i].first, pairs[i + 1].first);
    return true;
  });
}
template <const char* const& op>
bool inserted(const Site& site) {
  return site.is_inserted(op);
}

// ---- pieces ----------------------------------------------------------------------------------------------------------

Value next_slice(Builder& builder, const Site& site, const Values& v) {
  auto attributes = attributes_as<SliceAttributes>(site.instruction.attributes);
  for (std::size_t d = 0; d < attributes.slice.size(); ++d) {
    auto& range = attributes.slice[d];
    const auto size = v[0].type().dims()[d];
    if (range.limit - range.start == size || range.stride != 1) continue;
    const std::int64_t by = range.limit < size ? 1 : -1;
    range.start += by;
    range.limit += by;
    return again(builder, site, v, make_attributes(attributes));
  }
  return {};
}
Value other_order(Builder& builder, const Site& site, const Values& v) {
  Values turned(v.rbegin(), v.rend());
  return v.size() < 2 ? Value{} : again(builder, site, turned, site.instruction.attributes);
}
Value other_side(Builder& builder, const Site& site, const Values& v) {
  auto attributes = attributes_as<PadAttributes>(site.instruction.attributes);
  for (auto& dim : attributes.padding) std::swap(dim.low, dim.high);
  return again(builder, site, v, make_attributes(attributes));
}
template <int kFirstIndex>
Value next_index(Builder& builder, const Site& site, const Values& v) {
  Values moved = v;
  for (std::size_t i = kFirstIndex; i < v.size(); ++i)
    if (site.is_positional(static_cast<int>(i)) || site.operand(static_cast<int>(i)).op->name != "constant")
      moved[i] = plus_one(v[i]);
  return again(builder, site, moved, site.instruction.attributes);
}
template <class A>
Value earlier_window(Builder& builder, const Site& site, const Values& v) {
  auto attributes = attributes_as<A>(site.instruction.attributes);
  for (auto& dim : attributes.window.dims) {
    if (dim.size == 1 && dim.stride == 1) continue;
    ++dim.low;
    --dim.high;
    return again(builder, site, v, make_attributes(attributes));
  }
  return {};
}
bool is_local_window(const Site& site) {
  const bool slides = site.is("convolution") || site.is("reduce-window");
  return slides && site.global != nullptr && !equal(site.global->attributes, site.instruction.attributes);
}
Value earlier(Builder& builder, const Site& site, const Values& v) {
  return site.is("convolution") ? earlier_window<ConvolutionAttributes>(builder, site, v)
                                : earlier_window<WindowAttributes>(builder, site, v);
}

constexpr const char* kAllGather = "all-gather";
constexpr const char* kReduceScatter = "reduce-scatter";
constexpr const char* kAllToAll = "all-to-all";
constexpr const char* kPermute = "collective-permute";
constexpr const char* kSlice = "slice";
constexpr const char* kConcatenate = "concatenate";
constexpr const char* kPad = "pad";
constexpr const char* kDynamicSlice = "dynamic-slice";
constexpr const char* kUpdate = "dynamic-update-slice";

}  // namespace

const std::vector<Fault>& faults() {
  static const std::vector<Fault> all = {
      {"a mask left out", is_mask, without_mask},
      {"a mask one element too long", is_bound, longer_mask},
      {"a mask one element too short", is_bound, shorter_mask},
      {"a mask along another dim", is_mask_index, along_another_dim},
      {"another fill value than the identity", is_mask, wrong_fill},
      {"an init value counted on every device", is_counted_once, without_mask},
      {"a shard's start taken for 0", is_start, no_start},
      {"a shard's start one too far", is_start, next_start},
      {"a coordinate not reduced to its axis", is_digit, first},
      {"a coordinate of the minor axes", is_stride, first},
      {"an iota that starts at 0 on every device", is_shifted_ramp, first},
      {"a clamp left out", is_inserted_clamp, unclamped},
      {"a clamp's upper bound one too high", is_inserted_clamp, later_bound},
      {"an all-reduce left out", is_all_reduce, first},
      {"the maximum in place of a sum", is_all_reduce, maximum_instead},
      {"an all-reduce over other groups", is_all_reduce, exchanged_groups},
      {"an all-gather's group in another order", inserted<kAllGather>, turned_groups},
      {"a reduce-scatter's group in another order", inserted<kReduceScatter>, turned_groups},
      {"an all-to-all's group in another order", inserted<kAllToAll>, turned_groups},
      {"a permute's pair left out", inserted<kPermute>, lost_pair},
      {"a permute's sources exchanged", inserted<kPermute>, exchanged_sources},
      {"a piece one element beside", inserted<kSlice>, next_slice},
      {"pieces joined in another order", inserted<kConcatenate>, other_order},
      {"padding on the other side", inserted<kPad>, other_side},
      {"a read one element beside", inserted<kDynamicSlice>, next_index<1>},
      {"a write one element beside", inserted<kUpdate>, next_index<2>},
      {"a window one element early", is_local_window, earlier},
  };
  return all;
}

namespace {

std::vector<bool> positional_values(const Computation& computation) {
  std::vector<bool> made_of_constants;
  std::vector<bool> out;
  for (const Instruction& instruction : computation.instructions) {
    const bool source = instruction.op->role == Role::kConstant || instruction.op->name == "iota";
    bool any = instruction.op->role == Role::kPartitionId;
    bool all = source || any || (!instruction.operands.empty() && instruction.op->role == Role::kPlain);
    for (const Id operand : instruction.operands) {
      any = any || at(out, operand);
      all = all && (at(out, operand) || at(made_of_constants, operand));
    }
    out.push_back(all && any);
    made_of_constants.push_back(all && !any);
  }
  return out;
}

// Returns the computation with `fault` in place of one instruction, or nothing if that is impossible.
std::optional<Computation> changed(ProgramBuilder& program, const Fault& fault, const FaultSite& site) {
  const Computation& from = site.computation;
  Builder builder = program.computation(from.name);
  std::vector<Value> values;
  for (const Instruction& old : from.instructions) {
    std::vector<Value> operands;
    for (const Id operand : old.operands) operands.push_back(at(values, operand));
    if (&old == &site.instruction) {
      values.push_back(fault.plant(builder, site, operands));
      if (values.back().is_null() || !(values.back().type() == old.type)) return std::nullopt;
      builder.set_sharding(values.back(), old.sharding);
      builder.set_notes(values.back(), old.notes);
      continue;
    }
    Instruction copy = old;
    copy.control_predecessors.clear();
    for (int i = 0; i < isize(operands); ++i) at(copy.operands, i) = at(operands, i).id;
    values.push_back(builder.append(std::move(copy)));
  }
  return std::move(builder).finish(at(values, from.root));
}

}  // namespace

std::optional<Partitioned> planted(const Fault& fault, const Partitioned& parts, Dice& dice) {
  const Program& program = parts.program;
  std::vector<std::pair<ComputationId, Id>> places;
  for (ComputationId c = 0; c < isize(program.computations); ++c) {
    std::map<std::string_view, const Instruction*> global;
    for (const auto& computation : parts.global.computations)
      if (computation->name == program[c].name)
        for (const auto& instruction : computation->instructions) global[instruction.name] = &instruction;
    const auto positional = positional_values(program[c]);
    const auto site_of = [&](Id id) {
      const auto found = global.find(program[c][id].name);
      return FaultSite{program[c], positional, program[c][id], found == global.end() ? nullptr : found->second, dice};
    };
    for (Id id = 0; id < program[c].size(); ++id)
      if (fault.fits(site_of(id))) places.emplace_back(c, id);
    if (places.empty()) continue;
    const auto [chosen, id] = dice.pick(places);
    ProgramBuilder builder(program);
    auto made = changed(builder, fault, site_of(id));
    if (!made) return std::nullopt;
    Partitioned out = parts;
    out.program = builder.program();
    at(out.program.computations, chosen) = std::make_shared<const Computation>(std::move(*made));
    return out;
  }
  return std::nullopt;
}

}  // namespace tessera::testing
