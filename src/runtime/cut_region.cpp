// SPDX-License-Identifier: Apache-2.0
#include "cut_region.h"

#include <algorithm>
#include <utility>

#include "tessera/ops/contraction.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

std::optional<int> dim_of(const TensorFactors& tensor, int factor) {
  for (int d = 0; d < isize(tensor); ++d) {
    const auto& list = at(tensor, d);
    const auto found = std::find(list.begin(), list.end(), factor);
    if (found != list.end()) return found == list.begin() ? std::optional(d) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

bool can_be_cut(const Instruction& instruction) {
  static constexpr std::string_view kMoves[] = {"dot", "reduce", "broadcast", "iota", "transpose", "reshape"};
  if (!instruction.control_predecessors.empty() || !instruction.type.is_array()) return false;
  return instruction.op->elementwise ||
         std::find(std::begin(kMoves), std::end(kMoves), instruction.op->name) != std::end(kMoves);
}

CutRegion::CutRegion(const Program& program, const Computation& computation, const std::vector<std::vector<Id>>& users,
                     Id seed, int dim, IsLarge is_large)
    : program_(program), computation_(computation), users_(users), is_large_(std::move(is_large)) {
  cut_[seed] = dim;
  size_ = computation[seed].type.dim(dim);
  works_ = can_be_cut(computation[seed]) && add_operands(seed) && grow();
}

bool CutRegion::leaves(Id id) const {
  return id == computation_.root ||
         std::any_of(at(users_, id).begin(), at(users_, id).end(), [&](Id user) { return !contains(user); });
}

// Every reader of what is large belongs to it, and everything between.
bool CutRegion::grow() {
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
  absorb_transposes();
  follow();
  return is_closed();
}

// What leaves only through a transpose leaves as the transpose has it: products can write it so.
void CutRegion::absorb_transposes() {
  const std::map<Id, int> now = cut_;
  for (const auto& [id, dim] : now) {
    const auto& readers = at(users_, id);
    if (dim == kSummed || readers.size() != 1 || contains(readers[0])) continue;
    if (id != computation_.root && computation_[readers[0]].op->name == "transpose") add_reader(readers[0], id, dim);
  }
}

// Whole operands come before the parts; what is summed is read after them; nothing large leaves.
bool CutRegion::is_closed() const {
  for (const auto& [id, dim] : cut_) {
    for (const Id operand : computation_[id].operands)
      if (contains(operand) ? cut_.at(operand) == kSummed : depends(operand)) return false;
    if (dim != kSummed && is_large(id) && leaves(id)) return false;
  }
  return true;
}

void CutRegion::follow() {
  const Id first = cut_.begin()->first;
  depends_.assign(computation_.instructions.size(), false);
  for (Id id = first; id < computation_.size(); ++id) {
    const auto& operands = computation_[id].operands;
    depends_[static_cast<std::size_t>(id)] =
        contains(id) || std::any_of(operands.begin(), operands.end(), [&](Id operand) { return depends(operand); });
  }
}

FactorMap CutRegion::factors_of(Id id) const {
  const OpView view = view_of(program_, computation_, computation_[id]);
  return view.op.factors == nullptr ? FactorMap{} : view.op.factors(view);
}
// The factor that a cut of a dim cuts: the major one, of the size that is cut.
std::optional<int> CutRegion::factor_at(const FactorMap& map, const TensorFactors& tensor, int dim) const {
  if (dim < 0 || dim >= isize(tensor) || at(tensor, dim).empty()) return std::nullopt;
  const int factor = at(tensor, dim).front();
  return at(map.factors, factor).size == size_ ? std::optional(factor) : std::nullopt;
}

bool CutRegion::add_reader(Id reader, Id operand, int dim) {
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
bool CutRegion::add(Id id, int dim) {
  if (contains(id)) return cut_.at(id) == dim;
  if (!can_be_cut(computation_[id])) return false;
  if (computation_[id].op->name == "iota" &&
      attributes_as<IotaAttributes>(computation_[id].attributes).iota_dimension == dim)
    return false;
  cut_[id] = dim;
  sliced_.erase(id);
  return add_operands(id);
}
bool CutRegion::add_operands(Id id) {
  if (computation_[id].operands.empty()) return true;
  const FactorMap map = factors_of(id);
  if (map.operands.size() != computation_[id].operands.size() || map.results.size() != 1) return false;
  const auto factor = factor_at(map, map.results.front(), cut_.at(id));
  return factor && at(map.factors, *factor).kind == FactorKind::kPass && add_operands_of_factor(id, map, *factor);
}
bool CutRegion::add_operands_of_factor(Id id, const FactorMap& map, int factor) {
  const auto& operands = computation_[id].operands;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool has = std::any_of(map.operands[i].begin(), map.operands[i].end(), [&](const DimFactors& list) {
      return std::find(list.begin(), list.end(), factor) != list.end();
    });
    if (!has) {
      if (contains(operands[i]) && cut_.at(operands[i]) != kSummed) return false;
      continue;
    }
    const auto dim = dim_of(map.operands[i], factor);
    if (!dim) return false;
    if (contains(operands[i])) {
      if (cut_.at(operands[i]) != *dim) return false;
    } else if (const auto [place, is_new] = sliced_.emplace(operands[i], *dim); place->second != *dim) {
      return false;
    }
  }
  return true;
}

}  // namespace tessera
