// SPDX-License-Identifier: Apache-2.0
#include "auto_sharding/decision_graph.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "auto_sharding/choose_shardings.h"
#include "auto_sharding/reshard_costs.h"
#include "auto_sharding/value_lives.h"
#include "explain/explain.h"
#include "normalize/duplicate_cheap_values.h"
#include "normalize/manual.h"
#include "pipeline/interner.h"
#include "tessera/base/text.h"
#include "tessera/ops/control_flow.h"
#include "tessera/sharding/placement.h"

namespace tessera {

class DecisionGraph::Builder {
 public:
  Builder(const Variant& variant, const MachineModel& machine)
      : program_(variant.program),
        graph_(variant.graph),
        machine_(machine),
        estimator_(machine),
        reshards_(variant.graph.mesh, machine) {
    problem_.name = program_.name;
    const auto counts = run_counts(program_);
    for (const PropagationEdge& edge : graph_.edges)
      times_.push_back(edge.computation >= 0 ? at(counts, edge.computation) : 1);
    find_makers();
    sources_.resize(graph_.slots.size());
    for (int s = 0; s < isize(graph_.slots); ++s)
      if (is_array(at(graph_.slots, s)) && at(makers_, s) < 0 && !is_in_region(at(graph_.slots, s))) add_storage(s);
    for (int e = 0; e < isize(graph_.edges); ++e) add_edge(e);
    tie_aliases();
    add_usages();
    finish_costs();
  }

  [[nodiscard]] const solver::Problem& problem() const { return problem_; }

  [[nodiscard]] std::vector<PropagationSlot> slots_of(const std::vector<std::int32_t>& choices) const {
    std::vector<PropagationSlot> out = graph_.slots;
    for (int s = 0; s < isize(out); ++s) {
      const Source& source = at(sources_, s);
      if (source.node < 0 || at(out, s).fixed) continue;
      at(out, s).sharding = reshards_.sharding(at(*source.shardings, at(choices, source.node)));
      for (DimSharding& dim : at(out, s).sharding.dims) dim.open = true;
    }
    return out;
  }

 private:
  // The shardings of a value by the choice of a node, as numbers; equal lists have equal addresses.
  using ShardingList = const std::vector<int>*;
  // The node that decides the sharding of a value.
  struct Source {
    int node = -1;
    ShardingList shardings = nullptr;
  };

  static bool is_array(const PropagationSlot& slot) { return slot.type.is_array(); }
  // The values of a manual region have the shardings of the region. A border fixes those of its global operand or result,
  // which its Sharding mark or its result has. So the values outside choose with regard to these, and the ops of regions
  // are no nodes.
  static bool is_in_region(const PropagationSlot& slot) {
    return slot.sharding.kind == Sharding::Kind::kManual || !slot.sharding.manual.empty();
  }
  static bool belongs_to_region(const Instruction& instruction) {
    return manual_border(instruction) != ManualBorder::kNone || is_manual(instruction);
  }
  static std::int64_t bytes_of(const Type& type, const Sharding& sharding) {
    return shard_type(type, sharding.without_partial()).byte_size();
  }

  // A value that exactly one op makes, and that has no annotation, has the sharding in which the op makes it.
  void find_makers() {
    makers_.assign(graph_.slots.size(), -1);
    std::vector<int> count(graph_.slots.size(), 0);
    for (int e = 0; e < isize(graph_.edges); ++e)
      for (const int slot : at(graph_.edges, e).results) {
        ++at(count, slot);
        at(makers_, slot) = e;
      }
    for (int s = 0; s < isize(graph_.slots); ++s)
      if (at(count, s) != 1 || at(graph_.slots, s).fixed || at(graph_.edges, at(makers_, s)).computation < 0)
        at(makers_, s) = -1;
  }

  // ---- nodes --------------------------------------------------------------------------------------------------------

  int add_node(std::size_t choices) {
    seconds_.emplace_back(choices, 0.0);
    return isize(seconds_) - 1;
  }

  ShardingList list_of(std::vector<int> ids) { return &*lists_.emplace(std::move(ids)).first; }

  // Storage is in use for the complete run.
  void add_storage(int s) {
    const PropagationSlot& slot = at(graph_.slots, s);
    const std::vector<Sharding> all =
        slot.fixed ? std::vector{slot.sharding.closed().without_partial()} : storage_choices(graph_.mesh, slot.type);
    const int node = add_node(all.size());
    std::vector<int> ids;
    for (std::size_t c = 0; c < all.size(); ++c) {
      at(seconds_, node)[c] =
          kMemoryWeight * static_cast<double>(bytes_of(slot.type, all[c])) / machine_.memory_bytes_per_second();
      ids.push_back(reshards_.id_of(all[c]));
    }
    at(sources_, s) = {node, list_of(std::move(ids))};
  }

  const std::vector<OpChoice>& choices_of(const OpSignature& signature) {
    auto& known = choices_[signature.id];
    if (known.empty()) known = op_choices(graph_.mesh, signature, estimator_, reshards_);
    return known;
  }

  void add_edge(int e) {
    const PropagationEdge& edge = at(graph_.edges, e);
    if (edge.computation < 0) return add_flow(edge);
    if (belongs_to_region(*edge.instruction)) return;
    const OpSignature& signature = signatures_.of(program_, program_[edge.computation], *edge.instruction);
    const std::vector<bool> rematerialized = rematerialized_operands(program_[edge.computation], *edge.instruction);
    if (const int followed = followed_operand(edge, rematerialized); followed >= 0)
      return follow(e, signature, followed, rematerialized);
    const std::vector<OpChoice>& choices = choices_of(signature);
    const int node = add_node(choices.size());
    const bool is_free = is_rematerializable(program_[edge.computation], *edge.instruction);
    for (std::size_t c = 0; c < choices.size(); ++c)
      at(seconds_, node)[c] = is_free ? 0 : at(times_, e) * choices[c].seconds;
    for (int i = 0; i < isize(edge.results); ++i) {
      const int slot = at(edge.results, i);
      const ShardingList made = ids_of(choices, [&](const OpChoice& c) { return at(c.results, i); });
      if (at(makers_, slot) == e)
        at(sources_, slot) = {node, made};
      else if (is_array(at(graph_.slots, slot)))
        connect(at(graph_.slots, slot).type, {node, made}, at(sources_, slot), at(times_, e));
    }
    for (int i = 0; i < isize(edge.operands); ++i) {
      if (at(rematerialized, i)) continue;
      const ShardingList needed = ids_of(choices, [&](const OpChoice& c) { return at(c.needed, i); });
      read(at(edge.operands, i), {node, needed}, at(times_, e));
    }
  }

  template <class F>
  ShardingList ids_of(const std::vector<OpChoice>& choices, const F& sharding) {
    std::vector<int> ids;
    for (const OpChoice& choice : choices) ids.push_back(reshards_.id_of(sharding(choice)));
    return list_of(std::move(ids));
  }

  // Data flow between computations, as into a loop.
  void add_flow(const PropagationEdge& edge) {
    const int to = edge.results.front();
    if (is_array(at(graph_.slots, to))) read(edge.operands.front(), at(sources_, to), 1);
  }

  // The next run needs a result that takes the memory of a parameter, such as an updated weight, in its sharding.
  void tie_aliases() {
    const Computation& entry = program_.entry_computation();
    const auto& values = at(graph_.leaf_slots, program_.entry);
    for (const Alias& alias : program_.aliases) {
      const Id parameter = at(entry.parameters, alias.parameter);
      const int from = at(at(values, entry.root), entry.root_type().leaf_index(alias.output));
      const int to = at(at(values, parameter), entry[parameter].type.leaf_index(alias.parameter_index));
      if (at(sources_, to).node >= 0 && at(graph_.slots, from).type == at(graph_.slots, to).type)
        read(from, at(sources_, to), 1);
    }
  }

  // The operand whose op an elementwise op follows: the deepest one of equal dims; -1 if there is none.
  int followed_operand(const PropagationEdge& edge, const std::vector<bool>& rematerialized) const {
    if (!edge.instruction->op->elementwise || edge.results.size() != 1) return -1;
    const int result = edge.results.front();
    if (at(makers_, result) < 0 || !is_array(at(graph_.slots, result))) return -1;
    int best = -1;
    int depth = -1;
    for (int i = 0; i < isize(edge.operands); ++i) {
      const int slot = at(edge.operands, i);
      const int maker = at(makers_, slot);
      if (at(rematerialized, i) || maker < 0 || !is_array(at(graph_.slots, slot)) || at(sources_, slot).node < 0)
        continue;
      if (at(graph_.slots, slot).type.dims() != at(graph_.slots, result).type.dims()) continue;
      if (at(graph_.edges, maker).depth <= depth) continue;
      depth = at(graph_.edges, maker).depth;
      best = i;
    }
    return best;
  }

  void follow(int e, const OpSignature& signature, int followed, const std::vector<bool>& rematerialized) {
    const PropagationEdge& edge = at(graph_.edges, e);
    const FactorMap& map = *signature.map;
    const Source source = at(sources_, at(edge.operands, followed));
    std::vector<std::vector<int>> needed(edge.operands.size());
    for (std::size_t c = 0; c < source.shardings->size(); ++c) {
      const Sharding& stored = reshards_.sharding((*source.shardings)[c]);
      const Strategy strategy = legal(map, project(map, at(map.operands, followed), stored));
      Shardings operands;
      for (int i = 0; i < isize(edge.operands); ++i) {
        operands.push_back(unproject(graph_.mesh, map, at(map.operands, i), strategy));
        at(needed, i).push_back(reshards_.id_of(operands.back()));
      }
      at(seconds_, source.node)[c] +=
          at(times_, e) * estimator_.of_op(graph_.mesh, signature, operands, {stored}).seconds;
    }
    at(sources_, edge.results.front()) = source;
    for (int i = 0; i < isize(edge.operands); ++i)
      if (i != followed && !at(rematerialized, i))
        read(at(edge.operands, i), {source.node, list_of(std::move(at(needed, i)))}, at(times_, e));
  }

  // ---- costs of reshards --------------------------------------------------------------------------------------------

  void read(int slot, const Source& reader, double times) {
    if (is_array(at(graph_.slots, slot)) && at(sources_, slot).node >= 0 && reader.node >= 0)
      connect(at(graph_.slots, slot).type, at(sources_, slot), reader, times);
  }

  void connect(const Type& type, const Source& from, const Source& to, double times) {
    const std::vector<double>& table = table_of(type, from.shardings, to.shardings);
    if (table.empty()) return;
    if (from.node == to.node) {
      for (std::size_t c = 0; c < from.shardings->size(); ++c)
        at(seconds_, from.node)[c] += times * table[c * to.shardings->size() + c];
      return;
    }
    auto& sum = edges_[{std::min(from.node, to.node), std::max(from.node, to.node)}];
    sum.push_back({&table, times, from.node > to.node});
  }

  // [choices of from, choices of to]; empty if every entry is 0.
  const std::vector<double>& table_of(const Type& type, ShardingList from, ShardingList to) {
    const auto [entry, is_new] = tables_.try_emplace(std::tuple(types_.id_of(type), from, to));
    if (is_new) entry->second = reshards_.table(type, *from, *to);
    return entry->second;
  }

  // ---- the problem --------------------------------------------------------------------------------------------------

  // Values in the order of the program. Elementwise results that one elementwise op reads have no memory of their own.
  void add_usages() {
    const ValueLives lives(program_, graph_);
    problem_.nodes.resize(seconds_.size());
    std::vector<std::vector<std::int64_t>> usages;
    for (const auto& node : seconds_) usages.emplace_back(node.size(), 0);
    for (int s = 0; s < isize(graph_.slots); ++s) {
      const Source& source = at(sources_, s);
      if (source.node < 0 || !lives.has_memory(s)) continue;
      solver::Node& node = at(problem_.nodes, source.node);
      const auto [begin, end] = lives.of(s);
      const bool is_first = node.end <= node.begin;
      node.begin = is_first ? begin : std::min(node.begin, begin);
      node.end = is_first ? end : std::max(node.end, end);
      // The values of a node that are alive one after the other share their place.
      for (std::size_t c = 0; c < source.shardings->size(); ++c) {
        auto& usage = at(usages, source.node)[c];
        usage = std::max(usage, bytes_of(at(graph_.slots, s).type, reshards_.sharding((*source.shardings)[c])));
      }
    }
    for (std::size_t n = 0; n < usages.size(); ++n) problem_.nodes[n].usages = std::move(usages[n]);
  }

  struct Term {
    const std::vector<double>* table;
    double times;
    bool is_transposed;
  };

  [[nodiscard]] double entry_of(const Term& term, std::size_t a, std::size_t b, std::size_t rows,
                                std::size_t columns) const {
    return term.times * (*term.table)[term.is_transposed ? b * rows + a : a * columns + b];
  }

  // The solver takes integers: the largest cost becomes 10^13 units, so that sums of a million of them fit.
  void finish_costs() {
    double largest = 0;
    for (const auto& node : seconds_)
      for (const double x : node) largest = std::max(largest, x);
    for (const auto& [pair, terms] : edges_)
      for (const Term& term : terms)
        for (const double x : *term.table) largest = std::max(largest, term.times * x);
    const double units = largest > 0 ? 1e13 / largest : 1;
    problem_.nodes.resize(seconds_.size());
    for (std::size_t n = 0; n < seconds_.size(); ++n)
      for (const double x : seconds_[n]) problem_.nodes[n].costs.push_back(std::llround(units * x));
    for (const auto& [pair, terms] : edges_) {
      const std::size_t rows = at(seconds_, pair.first).size();
      const std::size_t columns = at(seconds_, pair.second).size();
      solver::Edge& edge = problem_.edges.emplace_back();
      edge.first = pair.first;
      edge.second = pair.second;
      edge.costs.resize(rows * columns);
      for (std::size_t a = 0; a < rows; ++a)
        for (std::size_t b = 0; b < columns; ++b) {
          double sum = 0;
          for (const Term& term : terms) sum += entry_of(term, a, b, rows, columns);
          edge.costs[a * columns + b] = std::llround(units * sum);
        }
    }
  }

  const Program& program_;
  const PropagationGraph& graph_;
  const MachineModel& machine_;
  ProgramEstimator estimator_;
  OpSignatures signatures_;
  ReshardCosts reshards_;
  Interner<Type> types_;
  std::set<std::vector<int>> lists_;
  std::map<int, std::vector<OpChoice>> choices_;  // by signature
  std::map<std::tuple<int, ShardingList, ShardingList>, std::vector<double>> tables_;
  std::vector<double> times_;                 // how often each edge's op runs
  std::vector<int> makers_;                   // by slot: the op that alone makes it, or -1
  std::vector<Source> sources_;               // by slot
  std::vector<std::vector<double>> seconds_;  // by node and choice
  std::map<std::pair<int, int>, std::vector<Term>> edges_;
  solver::Problem problem_;
};

DecisionGraph::DecisionGraph(const Variant& variant, const MachineModel& machine)
    : builder_(std::make_unique<Builder>(variant, machine)) {}
DecisionGraph::~DecisionGraph() = default;

const solver::Problem& DecisionGraph::problem() const { return builder_->problem(); }

std::vector<PropagationSlot> DecisionGraph::slots_of(const std::vector<std::int32_t>& choices) const {
  return builder_->slots_of(choices);
}

}  // namespace tessera
