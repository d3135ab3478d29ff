// SPDX-License-Identifier: Apache-2.0
#include "chunk_region.h"

#include <algorithm>
#include <utility>

#include "tessera/ops/contraction.h"
#include "tessera/ops/rows.h"
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

// Whether indices along the dim can be computed as indices from zero plus a start.
bool counts_on(const Type& type, int dim) {
  constexpr std::int64_t kExact = 1 << 24;
  return is_integer(type.dtype()) || (dtype_size(type.dtype()) >= 4 && type.dim(dim) <= kExact);
}

}  // namespace

bool is_summed_wide(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }

bool can_be_chunked(const Instruction& instruction) {
  if (!instruction.control_predecessors.empty() || !instruction.type.is_array()) return false;
  return instruction.op->elementwise || instruction.op->chunkable;
}

bool same_members(const ChunkRegion& a, const ChunkRegion& b) {
  const auto all_in = [](const ChunkRegion& some, const ChunkRegion& others) {
    return std::all_of(some.dims().begin(), some.dims().end(), [&](const auto& member) {
      const Id id = member.first;
      return some.is_own(id) || (others.contains(id) && !others.is_own(id));
    });
  };
  return all_in(a, b) && all_in(b, a);
}

ChunkRegion::ChunkRegion(const Program& program, const Computation& computation,
                         const std::vector<std::vector<Id>>& users, Id seed, int dim, IsLarge is_large)
    : program_(program),
      computation_(computation),
      users_(users),
      is_large_(std::move(is_large)),
      own_(computation.instructions.size()),
      depends_(computation.instructions.size()) {
  dims_[seed] = dim;
  size_ = computation[seed].type.dim(dim);
  recomputable_.assign(computation.instructions.size(), Answer::kUnknown);
  works_ = can_be_chunked(computation[seed]) && add_operands(seed) && grow();
}

bool ChunkRegion::leaves(Id id) const {
  if (is_own(id)) return false;
  return id == computation_.root || std::any_of(at(users_, id).begin(), at(users_, id).end(),
                                                [&](Id user) { return !contains(user) || is_own(user); });
}

// Adds every reader of large values, and everything between members.
bool ChunkRegion::grow() {
  bool changed = true;
  while (changed) {
    changed = false;
    if (!add_readers(changed)) return false;
    follow();
    if (!add_sliced(changed)) return false;
  }
  absorb_transposes();
  follow();
  return is_closed();
}
bool ChunkRegion::add_readers(bool& changed) {
  const auto now = dims_;
  for (const auto& [id, dim] : now) {
    if (dim == kSummed || is_own(id) || !is_large(id)) continue;
    if (id == computation_.root) return false;
    for (const Id user : at(users_, id)) {
      if (contains(user)) continue;
      if (!add_reader(user, id, dim)) return false;
      changed = true;
    }
  }
  return true;
}
bool ChunkRegion::add_sliced(bool& changed) {
  const auto now = sliced_;
  for (const auto& [id, dim] : now) {
    if (is_own(id) || is_in_memory(id)) continue;
    if (contains(id)) {
      if (dims_.at(id) != dim) return false;
      continue;
    }
    const bool is_own_one = !depends(id) && is_recomputable(id);
    if (!is_own_one && !depends(id) && !is_large(id)) continue;
    if (is_own_one) at(own_, id) = true;
    if (!add(id, dim)) return false;
    changed = true;
  }
  return true;
}

// Whether the value is in memory in any case.
bool ChunkRegion::is_in_memory(Id id) const {
  const Role role = computation_[id].op->role;
  return role == Role::kParameter || role == Role::kConstant;
}
// Whether the value can be computed from values that are small or in memory, and is as large as the chunked values or
// much larger than its operands.
bool ChunkRegion::is_recomputable(Id id) {
  Answer& answer = at(recomputable_, id);
  if (answer == Answer::kUnknown) {
    const bool found = find_recomputable(id);
    at(recomputable_, id) = found ? Answer::kYes : Answer::kNo;
  }
  return at(recomputable_, id) == Answer::kYes;
}
bool ChunkRegion::find_recomputable(Id id) {
  constexpr std::int64_t kMuch = 8;
  const Instruction& instruction = computation_[id];
  if (!can_be_chunked(instruction) || instruction.op->role == Role::kCollective || sums(id)) return false;
  const bool large = is_large(id);
  return std::all_of(instruction.operands.begin(), instruction.operands.end(), [&](Id operand) {
    const Type& type = computation_[operand].type;
    if (!type.is_array()) return false;
    const bool is_small = large ? !is_large(operand) || is_in_memory(operand)
                                : kMuch * type.element_count() <= instruction.type.element_count();
    return is_small || is_recomputable(operand);
  });
}

// If a transpose is the only reader outside, the transpose becomes a member: products can write their result
// transposed.
void ChunkRegion::absorb_transposes() {
  const auto now = dims_;
  for (const auto& [id, dim] : now) {
    const auto& readers = at(users_, id);
    if (dim == kSummed || is_own(id) || readers.size() != 1 || contains(readers[0])) continue;
    if (id != computation_.root && computation_[readers[0]].op->movement == Movement::kTranspose)
      add_reader(readers[0], id, dim);
  }
}

// Complete operands precede the chunks, sums are read after them, and no large value leaves the region.
bool ChunkRegion::is_closed() const {
  for (const auto& [id, dim] : dims_) {
    const auto& operands = computation_[id].operands;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Id operand = operands[i];
      if (!depends(operand)) continue;
      if (!contains(operand) || is_own(id) || dims_.at(operand) == kSummed || dims_.at(operand) != reads_.at(id)[i])
        return false;
    }
    if (dim != kSummed && !is_own(id) && is_large(id) && leaves(id)) return false;
  }
  return true;
}

void ChunkRegion::follow() {
  const auto is_member = [&](Id id) { return contains(id) && !is_own(id); };
  const auto first =
      std::find_if(dims_.begin(), dims_.end(), [&](const auto& member) { return is_member(member.first); });
  depends_.reset();
  for (Id id = first->first; id < computation_.size(); ++id) {
    const auto& operands = computation_[id].operands;
    at(depends_, id) =
        is_member(id) || std::any_of(operands.begin(), operands.end(), [&](Id operand) { return depends(operand); });
  }
}

// Whether the op sums over a dim: a product, a reduction.
bool ChunkRegion::sums(Id id) const {
  const FactorMap map = factors_of(id);
  return std::any_of(map.factors.begin(), map.factors.end(),
                     [](const Factor& factor) { return factor.kind == FactorKind::kReduce; });
}
FactorMap ChunkRegion::factors_of(Id id) const {
  const OpView view = view_of(program_, computation_, computation_[id]);
  return view.op.factors == nullptr ? FactorMap{} : view.op.factors(view);
}
// The factor that chunks of a dim divide: the major one, if it has the chunked size.
std::optional<int> ChunkRegion::factor_at(const FactorMap& map, const TensorFactors& tensor, int dim) const {
  if (dim < 0 || dim >= isize(tensor) || at(tensor, dim).empty()) return std::nullopt;
  const int factor = at(tensor, dim).front();
  return at(map.factors, factor).size == size_ ? std::optional(factor) : std::nullopt;
}

bool ChunkRegion::add_reader(Id reader, Id operand, int dim) {
  const Instruction& instruction = computation_[reader];
  if (!can_be_chunked(instruction)) return false;
  const FactorMap map = factors_of(reader);
  if (map.operands.size() != instruction.operands.size() || map.results.size() != 1) return false;
  const auto place = std::find(instruction.operands.begin(), instruction.operands.end(), operand);
  const auto factor = factor_at(map, at(map.operands, place - instruction.operands.begin()), dim);
  if (!factor) return false;
  const FactorKind kind = at(map.factors, *factor).kind;
  if (kind == FactorKind::kReduce) {
    const DType dtype = instruction.type.dtype();
    if (instruction.op != &rows::kDot || (dtype != DType::kF32 && !is_summed_wide(dtype))) return false;
    dims_[reader] = kSummed;
    return add_operands_of_factor(reader, map, *factor);
  }
  const auto result = dim_of(map.results.front(), *factor);
  return kind == FactorKind::kPass && result && add(reader, *result);
}
bool ChunkRegion::add(Id id, int dim) {
  if (contains(id)) return dims_.at(id) == dim;
  const Instruction& instruction = computation_[id];
  if (!can_be_chunked(instruction)) return false;
  if (instruction.op == &rows::kIota && attributes_as<IotaAttributes>(instruction.attributes).iota_dimension == dim &&
      !counts_on(instruction.type, dim))
    return false;
  dims_[id] = dim;
  return add_operands(id);
}
bool ChunkRegion::add_operands(Id id) {
  if (computation_[id].operands.empty()) {
    reads_[id] = {};
    return true;
  }
  const FactorMap map = factors_of(id);
  if (map.operands.size() != computation_[id].operands.size() || map.results.size() != 1) return false;
  const auto factor = factor_at(map, map.results.front(), dims_.at(id));
  return factor && at(map.factors, *factor).kind == FactorKind::kPass && add_operands_of_factor(id, map, *factor);
}
bool ChunkRegion::add_operands_of_factor(Id id, const FactorMap& map, int factor) {
  const auto& operands = computation_[id].operands;
  std::vector<int> reads;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool has = std::any_of(map.operands[i].begin(), map.operands[i].end(), [&](const DimFactors& list) {
      return std::find(list.begin(), list.end(), factor) != list.end();
    });
    const auto dim = has ? dim_of(map.operands[i], factor) : std::optional<int>(kUnchunked);
    if (!dim) return false;
    reads.push_back(*dim);
    const bool is_member = contains(operands[i]) && !is_own(operands[i]);
    if (is_member && dims_.at(operands[i]) != *dim && dims_.at(operands[i]) != kSummed) return false;
    if (has && !is_member) sliced_.insert({operands[i], *dim});
  }
  reads_[id] = std::move(reads);
  return true;
}

}  // namespace tessera
