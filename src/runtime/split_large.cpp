// SPDX-License-Identifier: Apache-2.0
// A product that would be the largest value by far (a vocabulary's logits), and everything as large that is made of it, in parts along one
// dim, part after part: the whole never lies in memory. What leaves the parts is small (losses, the gradient of the hidden rows) and is
// put together, or sums over the dim (the gradient of the weights) and is added up in place.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "prepare.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tessera/passes/passes.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

constexpr int kSummed = -1;  // in place of a dim: each part gives a summand of the whole

// Takes any size along a dim without a change of its attributes.
bool can_be_cut(const Instruction& instruction) {
  static constexpr std::string_view kMoves[] = {"dot", "reduce", "broadcast", "iota", "transpose", "reshape"};
  if (!instruction.control_predecessors.empty() || !instruction.type.is_array()) return false;
  return instruction.op->elementwise ||
         std::find(std::begin(kMoves), std::end(kMoves), instruction.op->name) != std::end(kMoves);
}

// What is computed in parts, and along which dim each value is cut.
class Region {
 public:
  Region(const Program& program, const Computation& computation, Id seed, int dim)
      : program_(program), computation_(computation), users_(computation.users()) {
    large_ = computation[seed].type.byte_size() / 4;
    cut_[seed] = dim;
    size_ = computation[seed].type.dim(dim);
    works_ = can_be_cut(computation[seed]) && add_operands(seed) && grow();
  }
  [[nodiscard]] bool works() const { return works_; }
  [[nodiscard]] const std::map<Id, int>& cut() const { return cut_; }
  /// Operands from outside that are cut too.
  [[nodiscard]] const std::map<Id, int>& sliced() const { return sliced_; }
  [[nodiscard]] bool contains(Id id) const { return cut_.contains(id); }
  /// Whether more than one summand is worth the parts: products are summed in place.
  [[nodiscard]] bool depends(Id id) const { return at(depends_, id); }
  [[nodiscard]] bool leaves(Id id) const {
    return id == computation_.root ||
           std::any_of(at(users_, id).begin(), at(users_, id).end(), [&](Id user) { return !contains(user); });
  }

 private:
  [[nodiscard]] bool is_large(Id id) const { return computation_[id].type.byte_size() >= large_; }

  // Every reader of what is large belongs to it, and everything between.
  bool grow() {
    bool changed = true;
    while (changed) {
      changed = false;
      const std::map<Id, int> now = cut_;
      for (const auto& [id, dim] : now) {
        if (dim == kSummed || !is_large(id)) continue;
        if (id == computation_.root) return false;
        for (const Id user : at(users_, id)) {
          if (contains(user)) continue;
          if (!add_reader(user, id, dim)) return false;
          changed = true;
        }
      }
      follow();
      const std::map<Id, int> sliced = sliced_;
      for (const auto& [id, dim] : sliced) {
        if (!depends(id) && !is_large(id)) continue;
        if (!add(id, dim)) return false;
        changed = true;
      }
    }
    follow();
    return is_closed();
  }
  // Whole operands come before the parts; what is summed is read after them; nothing large leaves.
  [[nodiscard]] bool is_closed() const {
    for (const auto& [id, dim] : cut_) {
      for (const Id operand : computation_[id].operands)
        if (contains(operand) ? at_cut(operand) == kSummed : depends(operand)) return false;
      if (dim != kSummed && is_large(id) && leaves(id)) return false;
    }
    return true;
  }
  [[nodiscard]] int at_cut(Id id) const { return cut_.at(id); }

  void follow() {
    depends_.assign(computation_.instructions.size(), false);
    for (Id id = 0; id < computation_.size(); ++id) {
      const auto& operands = computation_[id].operands;
      depends_[static_cast<std::size_t>(id)] =
          contains(id) || std::any_of(operands.begin(), operands.end(), [&](Id operand) { return depends(operand); });
    }
  }

  [[nodiscard]] FactorMap factors_of(Id id) const {
    const OpView view = view_of(program_, computation_, computation_[id]);
    return view.op.factors == nullptr ? FactorMap{} : view.op.factors(view);
  }
  // The factor that a cut of a dim cuts: the major one, of the size that is cut.
  [[nodiscard]] std::optional<int> factor_at(const FactorMap& map, const TensorFactors& tensor, int dim) const {
    if (dim < 0 || dim >= isize(tensor) || at(tensor, dim).empty()) return std::nullopt;
    const int factor = at(tensor, dim).front();
    return at(map.factors, factor).size == size_ ? std::optional(factor) : std::nullopt;
  }
  static std::optional<int> dim_of(const TensorFactors& tensor, int factor) {
    for (int d = 0; d < isize(tensor); ++d) {
      const auto& list = at(tensor, d);
      const auto found = std::find(list.begin(), list.end(), factor);
      if (found != list.end()) return found == list.begin() ? std::optional(d) : std::nullopt;
    }
    return std::nullopt;
  }

  bool add_reader(Id reader, Id operand, int dim) {
    const Instruction& instruction = computation_[reader];
    if (!can_be_cut(instruction)) return false;
    const FactorMap map = factors_of(reader);
    if (map.operands.size() != instruction.operands.size() || map.results.size() != 1) return false;
    const auto place = std::find(instruction.operands.begin(), instruction.operands.end(), operand);
    const auto factor = factor_at(map, at(map.operands, place - instruction.operands.begin()), dim);
    if (!factor) return false;
    const FactorKind kind = at(map.factors, *factor).kind;
    if (kind == FactorKind::kReduce) {
      if (instruction.op->name != "dot" || instruction.type.dtype() != DType::kF32) return false;
      cut_[reader] = kSummed;
      return add_operands_of_factor(reader, map, *factor);
    }
    const auto result = dim_of(map.results.front(), *factor);
    return kind == FactorKind::kPass && result && add(reader, *result);
  }
  bool add(Id id, int dim) {
    if (contains(id)) return at_cut(id) == dim;
    if (!can_be_cut(computation_[id])) return false;
    if (computation_[id].op->name == "iota" &&
        attributes_as<IotaAttributes>(computation_[id].attributes).iota_dimension == dim)
      return false;
    cut_[id] = dim;
    sliced_.erase(id);
    return add_operands(id);
  }
  bool add_operands(Id id) {
    if (computation_[id].operands.empty()) return true;
    const FactorMap map = factors_of(id);
    if (map.operands.size() != computation_[id].operands.size() || map.results.size() != 1) return false;
    const auto factor = factor_at(map, map.results.front(), at_cut(id));
    return factor && at(map.factors, *factor).kind == FactorKind::kPass && add_operands_of_factor(id, map, *factor);
  }
  bool add_operands_of_factor(Id id, const FactorMap& map, int factor) {
    const auto& operands = computation_[id].operands;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const bool has = std::any_of(map.operands[i].begin(), map.operands[i].end(), [&](const DimFactors& list) {
        return std::find(list.begin(), list.end(), factor) != list.end();
      });
      if (!has) {
        if (contains(operands[i]) && at_cut(operands[i]) != kSummed) return false;
        continue;
      }
      const auto dim = dim_of(map.operands[i], factor);
      if (!dim) return false;
      if (contains(operands[i])) {
        if (at_cut(operands[i]) != *dim) return false;
      } else if (const auto [place, is_new] = sliced_.emplace(operands[i], *dim); place->second != *dim) {
        return false;
      }
    }
    return true;
  }

  const Program& program_;
  const Computation& computation_;
  std::vector<std::vector<Id>> users_;
  std::int64_t large_ = 0;
  std::int64_t size_ = 0;
  std::map<Id, int> cut_;
  std::map<Id, int> sliced_;
  std::vector<bool> depends_;
  bool works_ = false;
};

// Computes the region part by part where its last instruction stood.
class Splitter {
 public:
  Splitter(ComputationRewriter& rewriter, const Region& region, std::int64_t parts)
      : rewriter_(rewriter), from_(rewriter.from()), region_(region), parts_(parts) {}

  void run() {
    const Id last = region_.cut().rbegin()->first;
    for (Id id = 0; id <= last; ++id)
      if (!region_.depends(id)) keep(id);
    for (std::int64_t part = 0; part < parts_; ++part) add_part(part);
    for (const auto& [id, values] : made_)
      rewriter_.replace(id,
                        region_.cut().at(id) == kSummed ? sum(values) : ops::concatenate(values, region_.cut().at(id)));
    for (Id id = 0; id < from_.size(); ++id)
      if ((id > last || region_.depends(id)) && !region_.contains(id)) keep(id);
  }

 private:
  void keep(Id id) {
    if (from_[id].op->role != Role::kParameter) rewriter_.keep(id);
  }
  static Value sum(const std::vector<Value>& values) {
    Value out = values.front();
    for (std::size_t i = 1; i < values.size(); ++i) out = ops::add(out, values[i]);
    return out;
  }
  void add_part(std::int64_t part) {
    Builder& builder = rewriter_.builder();
    std::map<Id, Value> here;
    const auto operand_of = [&](Id operand) {
      if (const auto found = here.find(operand); found != here.end()) return found->second;
      const auto sliced = region_.sliced().find(operand);
      if (sliced == region_.sliced().end()) return rewriter_.mapped(operand);
      const Value whole = rewriter_.mapped(operand);
      const std::int64_t size = whole.type().dim(sliced->second) / parts_;
      return here[operand] = ops::slice_dim(whole, sliced->second, part * size, (part + 1) * size);
    };
    for (const auto& [id, dim] : region_.cut()) {
      Instruction made = from_[id];
      for (Id& operand : made.operands) operand = operand_of(operand).id;
      for (ComputationId& callee : made.called) callee = rewriter_.callee(callee);
      made.sharding = nullptr;
      if (dim != kSummed) {
        Dims dims = made.type.dims();
        at(dims, dim) /= parts_;
        made.type = Type::array(made.type.dtype(), std::move(dims));
      }
      const Value value = here[id] = builder.append(std::move(made));
      if (region_.leaves(id)) made_[id].push_back(value);
    }
  }

  ComputationRewriter& rewriter_;
  const Computation& from_;
  const Region& region_;
  std::int64_t parts_;
  std::map<Id, std::vector<Value>> made_;  // of what leaves, by part
};

// The fewest equal parts that are small enough; 1 where there are none.
std::int64_t parts_of(std::int64_t size, std::int64_t bytes, std::int64_t most_bytes) {
  constexpr std::int64_t kMostParts = 16;
  for (std::int64_t parts = 2; parts <= std::min(size, kMostParts); ++parts)
    if (size % parts == 0 && (bytes / parts <= most_bytes || parts * 2 > std::min(size, kMostParts))) return parts;
  return 1;
}

std::optional<int> first_dim(const Type& type) {
  for (int d = 0; d < type.ndim(); ++d)
    if (type.dim(d) > 1) return d;
  return std::nullopt;
}

}  // namespace

Program split_large(const Program& program, std::int64_t most_bytes) {
  const Computation& entry = program.entry_computation();
  for (Id id = 0; id < entry.size(); ++id) {
    const Type& type = entry[id].type;
    if (entry[id].op->name != "dot" || type.byte_size() <= most_bytes) continue;
    const auto dim = first_dim(type);
    if (!dim) continue;
    const std::int64_t parts = parts_of(type.dim(*dim), type.byte_size(), most_bytes);
    if (parts < 2) continue;
    const Region region(program, entry, id, *dim);
    if (!region.works() || region.cut().size() < 2) continue;
    const Computation* computation = &entry;
    const Program out = rewrite_computations(
        program, [&](ComputationRewriter& rewriter) { Splitter(rewriter, region, parts).run(); },
        [&](const Computation& one) { return &one == computation; });
    return remove_dead_code(out);
  }
  return program;
}

}  // namespace tessera
