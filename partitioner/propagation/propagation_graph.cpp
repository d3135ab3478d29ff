// SPDX-License-Identifier: Apache-2.0
#include "propagation/propagation_graph.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "normalize/manual.h"
#include "pipeline/interner.h"
#include "pipeline/leaves.h"
#include "pipeline/origins.h"
#include "propagation/op_signatures.h"
#include "propagation/propagate.h"
#include "tessera/base/text.h"
#include "tessera/base/text_cursor.h"
#include "tessera/ops/control_flow.h"

namespace tessera {
namespace {

// A blocked dim (such as that of a sort) must be replicated only during the op, so its axes propagate to the result.
std::shared_ptr<const FactorMap> passing_blocked(const std::shared_ptr<const FactorMap>& map) {
  const auto has = [](const std::vector<TensorFactors>& tensors, int factor) {
    return std::any_of(tensors.begin(), tensors.end(), [&](const TensorFactors& tensor) {
      return std::any_of(tensor.begin(), tensor.end(),
                         [&](const DimFactors& dim) { return dim == DimFactors{factor}; });
    });
  };
  std::shared_ptr<FactorMap> out;
  for (int f = 0; f < isize(map->factors); ++f) {
    if (at(map->factors, f).kind != FactorKind::kBlocked || !has(map->operands, f) || !has(map->results, f)) continue;
    if (out == nullptr) out = std::make_shared<FactorMap>(*map);
    at(out->factors, f).kind = FactorKind::kPass;
  }
  return out == nullptr ? map : out;
}

// Slots during construction. This is a union-find structure because loops unite values of several computations.
class SlotUnion {
 public:
  int add(const Type& type) {
    types_.push_back(type);
    parent_.push_back(isize(parent_));
    given_.emplace_back();
    return isize(parent_) - 1;
  }
  int find(int slot) {
    while (at(parent_, slot) != slot) slot = at(parent_, slot) = at(parent_, at(parent_, slot));
    return slot;
  }
  void unite(int a, int b) {
    a = find(a);
    b = find(b);
    if (a == b) return;
    at(parent_, std::max(a, b)) = std::min(a, b);
    if (!at(given_, std::min(a, b))) at(given_, std::min(a, b)) = at(given_, std::max(a, b));
  }
  bool give(int slot, const Sharding& sharding) {
    auto& given = at(given_, find(slot));
    if (given && !(*given == sharding)) return false;
    given = sharding;
    return true;
  }
  // Replaces the sharding that was given before.
  void replace(int slot, const Sharding& sharding) { at(given_, find(slot)) = sharding; }
  [[nodiscard]] int size() const { return isize(parent_); }
  [[nodiscard]] const Type& type(int slot) const { return at(types_, slot); }
  [[nodiscard]] const std::optional<Sharding>& given(int slot) { return at(given_, find(slot)); }

 private:
  std::vector<Type> types_;
  std::vector<int> parent_;
  std::vector<std::optional<Sharding>> given_;
};

class GraphBuilder {
 public:
  explicit GraphBuilder(const Program& program) : program_(program), used_(partitioned_computations(program)) {
    if (!program.meshes.empty()) graph_.mesh = program.meshes.front();
  }

  PropagationGraph build() {
    graph_.leaf_slots.resize(program_.computations.size());
    for (ComputationId c = 0; c < isize(program_.computations); ++c)
      if (at(used_, c)) add_computation(c);
    tie_groups();
    freeze_entry_parameters();
    finish_slots();
    return std::move(graph_);
  }

 private:
  void add_computation(ComputationId c) {
    const auto& computation = program_[c];
    auto& slots = at(graph_.leaf_slots, c);
    slots.resize(computation.instructions.size());
    std::vector<int> depths(computation.instructions.size(), 0);
    for (Id id = 0; id < computation.size(); ++id) {
      const auto& instruction = computation[id];
      at(slots, id) = result_slots(c, instruction);
      int& depth = at(depths, id);
      for (const Id operand : instruction.operands) depth = std::max(depth, at(depths, operand) + 1);
      depth_ = depth;
      if (c == program_.entry && id == computation.root) at(slots, id) = apart(instruction, std::move(at(slots, id)));
      fix(instruction, at(slots, id));
      connect(c, id);
    }
  }

  std::vector<int> operand_slots(ComputationId c, const Instruction& instruction) const {
    std::vector<int> out;
    for (const Id operand : instruction.operands) {
      const auto& more = at(at(graph_.leaf_slots, c), operand);
      out.insert(out.end(), more.begin(), more.end());
    }
    return out;
  }

  // Ops that only pass leaves on share the slots of their operands.
  std::vector<int> result_slots(ComputationId c, const Instruction& instruction) {
    const auto role = instruction.op->role;
    if (role == Role::kTuple || role == Role::kOptBarrier) return operand_slots(c, instruction);
    if (role == Role::kGetTupleElement) return element_slots(c, instruction);
    std::vector<int> out;
    for (const auto& leaf : instruction.type.leaves()) out.push_back(slots_.add(leaf));
    if (role == Role::kWhile) {
      for (const ComputationId callee : instruction.called)
        for (int i = 0; i < isize(out); ++i) slots_.unite(at(out, i), at(parameter_slots(callee), i));
    }
    return out;
  }

  std::vector<int> element_slots(ComputationId c, const Instruction& instruction) const {
    const auto& tuple = program_[c][instruction.operands[0]];
    const int first = tuple.type.leaf_offset(index_of(instruction));
    const auto& all = at(at(graph_.leaf_slots, c), instruction.operands[0]);
    return {all.begin() + first, all.begin() + first + instruction.type.leaf_count()};
  }

  std::vector<int> parameter_slots(ComputationId callee) const {
    std::vector<int> out;
    for (const Id parameter : program_[callee].parameters) {
      const auto& more = at(at(graph_.leaf_slots, callee), parameter);
      out.insert(out.end(), more.begin(), more.end());
    }
    return out;
  }
  const std::vector<int>& root_slots(ComputationId callee) const {
    return at(at(graph_.leaf_slots, callee), program_[callee].root);
  }

  void fix(const Instruction& instruction, const std::vector<int>& slots) {
    if (!instruction.sharding) return;
    for (int i = 0; i < isize(slots); ++i) {
      const auto& sharding = at(*instruction.sharding, instruction.sharding->size() == 1 ? 0 : i);
      if (sharding.kind == Sharding::Kind::kUnknown) continue;
      // The state of a loop has the sharding of the while in its body too, regardless of annotations in the body.
      if (instruction.op->role == Role::kWhile)
        slots_.replace(at(slots, i), sharding);
      else
        slots_.give(at(slots, i), sharding);  // a tuple with a different sharding reshards its element
    }
  }

  // The sharding that the caller requires is one suggestion among others: the value may have a different sharding and
  // is resharded when it is returned.
  std::vector<int> apart(const Instruction& root, std::vector<int> slots) {
    const bool passes_on = root.op->role == Role::kTuple || root.op->role == Role::kGetTupleElement;
    if (!passes_on || !root.sharding || has_manual_regions(program_)) return slots;  // region borders bind results
    for (int i = 0; i < isize(slots); ++i) {
      const Sharding& wanted = at(*root.sharding, root.sharding->size() == 1 ? 0 : i);
      if (!wanted.is_tiled() || !slots_.type(at(slots, i)).is_array()) continue;
      const int value = std::exchange(at(slots, i), slots_.add(slots_.type(at(slots, i))));
      add_identities({value}, {at(slots, i)}, root);
    }
    return slots;
  }

  void connect(ComputationId c, Id id) {
    const auto& instruction = program_[c][id];
    const auto& results = at(at(graph_.leaf_slots, c), id);
    switch (instruction.op->role) {
      case Role::kTuple:
      case Role::kOptBarrier:
      case Role::kGetTupleElement:
      case Role::kParameter: return;
      case Role::kCall: {
        const auto callee = instruction.called.front();
        add_identities(operand_slots(c, instruction), parameter_slots(callee), instruction);
        add_identities(root_slots(callee), results, instruction);
        return;
      }
      case Role::kWhile: {
        add_identities(operand_slots(c, instruction), results, instruction);
        add_identities(root_slots(instruction.called[1]), results, instruction);
        return;
      }
      case Role::kConditional: {
        for (int b = 0; b < isize(instruction.called); ++b) {
          const auto callee = at(instruction.called, b);
          add_identities(at(at(graph_.leaf_slots, c), at(instruction.operands, b + 1)), parameter_slots(callee),
                         instruction);
          add_identities(root_slots(callee), results, instruction);
        }
        return;
      }
      case Role::kCopy:
      case Role::kShardingMark:
        if (instruction.frontend_attribute(kUnshardAttribute) != nullptr ||
            instruction.frontend_attribute(kBarrierAttribute) != nullptr || is_sharding_barrier(instruction))
          return;
        break;
      default: break;
    }
    add_edge(signatures_.of(program_, program_[c], instruction).map, operand_slots(c, instruction), results,
             instruction);
    graph_.edges.back().computation = c;
  }

  void add_identities(const std::vector<int>& from, const std::vector<int>& to, const Instruction& instruction) {
    for (int i = 0; i < isize(from) && i < isize(to); ++i) {
      const auto& type = slots_.type(at(from, i));
      if (!type.is_array()) continue;
      auto map = std::make_shared<FactorMap>();
      TensorFactors tensor;
      for (const auto size : type.dims()) tensor.push_back({map->add(size)});
      map->operands = {tensor};
      map->results = {tensor};
      add_edge(std::move(map), {at(from, i)}, {at(to, i)}, instruction);
    }
  }

  void add_edge(std::shared_ptr<const FactorMap> map, std::vector<int> operands, std::vector<int> results,
                const Instruction& instruction) {
    PropagationEdge edge;
    edge.map_id = maps_.id_of(*map);
    if (edge.map_id == isize(traits_)) traits_.push_back(traits_of(*map));
    edge.passes_all = at(traits_, edge.map_id).passes_all;
    edge.broadcasts = at(traits_, edge.map_id).broadcasts && !operands.empty();
    edge.map = passing_blocked(map);
    if (edge.map != map) edge.strict = std::move(map);
    edge.operands = std::move(operands);
    edge.results = std::move(results);
    edge.instruction = &instruction;
    edge.depth = depth_;
    graph_.edges.push_back(std::move(edge));
  }

  struct Traits {
    bool passes_all = false;
    bool broadcasts = false;
  };
  static Traits traits_of(const FactorMap& map) {
    Traits out;
    out.passes_all = std::all_of(map.factors.begin(), map.factors.end(),
                                 [](const Factor& f) { return f.kind == FactorKind::kPass; });
    std::vector<char> in_operand(map.factors.size(), 0);
    for (const auto& tensor : map.operands)
      for (const auto& dim : tensor)
        for (const int f : dim) at(in_operand, f) = 1;
    for (const auto& tensor : map.results)
      for (const auto& dim : tensor)
        for (const int f : dim) out.broadcasts = out.broadcasts || at(in_operand, f) == 0;
    return out;
  }

  // ` shard_as 1`: members of a group have equal shardings; ` shard_like 1`: shardings propagate between members.
  void tie_groups() {
    struct Member {
      int slot;
      bool same;
      const Instruction* instruction;
    };
    std::map<std::int64_t, std::vector<Member>> groups;
    for (ComputationId c = 0; c < isize(program_.computations); ++c) {
      if (!at(used_, c)) continue;
      for (Id id = 0; id < program_[c].size(); ++id) {
        const Instruction& instruction = program_[c][id];
        const auto* suffix = instruction.frontend_attribute("tessera.sharding_suffix");
        if (suffix == nullptr || !instruction.type.is_array()) continue;
        TextCursor in(*suffix);
        const bool same = in.take_word("shard_as");
        if (!same && !in.take_word("shard_like")) continue;
        groups[in.integer("a group")].push_back({at(at(at(graph_.leaf_slots, c), id), 0), same, &instruction});
      }
    }
    for (const auto& [number, members] : groups)
      for (std::size_t k = 1; k < members.size(); ++k) {
        const Member& a = members.front();
        const Member& b = members[k];
        if (slots_.type(a.slot).dims() != slots_.type(b.slot).dims()) continue;
        if (a.same && b.same)
          slots_.unite(a.slot, b.slot);
        else
          add_identities({a.slot}, {b.slot}, *b.instruction);
      }
  }

  // Entry parameters without a sharding are replicated unless the module lets propagation choose.
  void freeze_entry_parameters() {
    const auto& entry = program_.entry_computation();
    for (int p = 0; p < isize(entry.parameters); ++p) {
      const auto& allowed = program_.propagate_to_parameters;
      const bool free = allowed.size() == 1 ? allowed[0] : (p < isize(allowed) && allowed[static_cast<std::size_t>(p)]);
      if (free) continue;
      for (const int slot : at(at(graph_.leaf_slots, program_.entry), at(entry.parameters, p)))
        if (!slots_.given(slot))
          slots_.give(slot,
                      Sharding::replicated(graph_.mesh, slots_.type(slot).is_array() ? slots_.type(slot).ndim() : 0));
    }
  }

  void finish_slots() {
    for (int s = 0; s < slots_.size(); ++s) {
      PropagationSlot slot;
      slot.type = slots_.type(s);
      const int ndim = slot.type.is_array() ? slot.type.ndim() : 0;
      if (const auto& given = slots_.given(s)) {
        slot.sharding = *given;
        slot.fixed = true;
        slot.open = given->is_tiled() && given->mesh == graph_.mesh &&
                    std::any_of(given->dims.begin(), given->dims.end(), [](const auto& d) { return d.open; });
      } else {
        slot.sharding = Sharding::replicated(graph_.mesh, ndim);
        for (auto& dim : slot.sharding.dims) dim.open = true;
        slot.open = ndim > 0;
      }
      graph_.slots.push_back(std::move(slot));
    }
    for (auto& computation : graph_.leaf_slots)
      for (auto& value : computation)
        for (auto& slot : value) slot = slots_.find(slot);
    graph_.edges_of_slot.resize(graph_.slots.size());
    for (int e = 0; e < isize(graph_.edges); ++e) {
      auto& edge = at(graph_.edges, e);
      for (auto* slots : {&edge.operands, &edge.results})
        for (auto& slot : *slots) {
          slot = slots_.find(slot);
          at(graph_.edges_of_slot, slot).push_back(e);
        }
    }
  }

  const Program& program_;
  std::vector<bool> used_;
  SlotUnion slots_;
  OpSignatures signatures_;
  Interner<FactorMap> maps_;
  std::vector<Traits> traits_;  // by map number
  int depth_ = 0;               // of the instruction that is being connected
  PropagationGraph graph_;
};

}  // namespace

PropagationGraph build_propagation_graph(const Program& program) { return GraphBuilder(program).build(); }

}  // namespace tessera
