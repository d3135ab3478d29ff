// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <set>

#include "collective_passes/collective_match.h"
#include "collective_passes/collective_matmul.h"
#include "explain/explain.h"
#include "strategy/work_seconds.h"
#include "tessera/base/text.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/structural.h"
#include "tessera/partitioner/reshard_planning/plan_reshard.h"

namespace tessera {
namespace {

bool contains(const Dims& dims, std::int64_t dim) { return std::find(dims.begin(), dims.end(), dim) != dims.end(); }

std::vector<DotDim> dims_of(const DotAttributes& dot, int lhs_ndim, int rhs_ndim) {
  std::vector<DotDim> out;
  int next = 0;  // the next dim of the result
  for (std::size_t k = 0; k < dot.lhs_batch_dims.size(); ++k)
    out.push_back({static_cast<int>(dot.lhs_batch_dims[k]), static_cast<int>(dot.rhs_batch_dims[k]), next++});
  for (std::size_t k = 0; k < dot.lhs_contracting_dims.size(); ++k)
    out.push_back({static_cast<int>(dot.lhs_contracting_dims[k]), static_cast<int>(dot.rhs_contracting_dims[k]), -1});
  for (int d = 0; d < lhs_ndim; ++d)
    if (!contains(dot.lhs_batch_dims, d) && !contains(dot.lhs_contracting_dims, d)) out.push_back({d, -1, next++});
  for (int d = 0; d < rhs_ndim; ++d)
    if (!contains(dot.rhs_batch_dims, d) && !contains(dot.rhs_contracting_dims, d)) out.push_back({-1, d, next++});
  return out;
}

class Finder {
 public:
  Finder(const Program& program, const Computation& computation, const MachineModel& machine)
      : program_(program), c_(computation), machine_(machine) {}

  std::vector<Chain> run() {
    std::vector<Chain> found;
    for (Id id = 0; id < c_.size(); ++id) {
      if (!is_single(c_[id], CollectiveKind::kAllGather) && !is_single(c_[id], CollectiveKind::kReduceScatter))
        continue;
      if (users_.empty()) prepare();
      if (auto chain = chain_of(id)) found.push_back(std::move(*chain));
    }
    std::stable_sort(found.begin(), found.end(), [](const Chain& a, const Chain& b) { return a.gain > b.gain; });
    std::vector<bool> taken(c_.instructions.size(), false);
    std::vector<Chain> out;
    for (Chain& chain : found) {
      const auto is_taken = [&](const ChainDot& dot) { return at(taken, dot.id); };
      if (std::any_of(chain.dots.begin(), chain.dots.end(), is_taken)) continue;
      for (const ChainDot& dot : chain.dots) taken[static_cast<std::size_t>(dot.id)] = true;
      out.push_back(std::move(chain));
    }
    return out;
  }

 private:
  void prepare() {
    users_ = c_.users();
    ordered_ = ordered_by_control(c_);
  }

  [[nodiscard]] std::optional<Chain> chain_of(Id id) const {
    constexpr std::int64_t kLargestRing = 32;  // the chain has this many steps
    const Instruction& collective = c_[id];
    const auto& attributes = attributes_as<CollectiveAttributes>(collective.attributes);
    const auto size = size_of_groups(program_, collective);
    if (is_pinned(collective) || at(ordered_, id) || attributes.channel_id == 0 || !size || *size < 2 ||
        *size > kLargestRing)
      return std::nullopt;
    Chain out;
    out.collective = id;
    out.replaced = {id};
    out.gathers = collective.op->collective == CollectiveKind::kAllGather;
    out.dim = static_cast<int>(attributes.dimensions.front());
    out.groups = groups_of(program_, collective);
    out.tile = (out.gathers ? c_[collective.operands[0]] : collective).type.dim(out.dim);
    if (out.tile == 0 || isize(out.groups) * *size != program_.num_partitions) return std::nullopt;
    if (!(out.gathers ? find_readers(out) : find_summed(out))) return std::nullopt;
    for (const ChainDot& dot : out.dots) out.replaced.push_back(dot.id);
    out.gain = gain_of(out);
    return out.gain > 0 ? std::optional(std::move(out)) : std::nullopt;
  }

  // Finds the dots that read a gather, or that read the slice that removes its padding.
  bool find_readers(Chain& out) const {
    Id gathered = out.collective;
    if (const auto& users = at(users_, gathered); users.size() == 1 && trims(users.front(), out.dim))
      gathered = users.front();
    out.length = c_[gathered].type.dim(out.dim);
    if (gathered != out.collective) out.replaced.push_back(gathered);
    const auto& users = at(users_, gathered);
    if (users.empty() || gathered == c_.root || c_.root == out.collective) return false;
    for (const Id user : users) {
      const auto& operands = c_[user].operands;
      if (!is_dot(user) || operands[0] == operands[1]) return false;
      const int moving = operands[0] == gathered ? 0 : 1;
      // All parts of the dots are placed at the first dot.
      if (at(operands, 1 - moving) >= users.front()) return false;
      const DotDim dim = dim_where(user, static_cast<std::size_t>(moving), out.dim);
      if (dim.at(kResult) < 0 && !differs(at(operands, 1 - moving), out.groups)) return false;
      out.dots.push_back({user, dim, moving});
    }
    return true;
  }

  // Finds the dot that produces the operand of a scatter, possibly through a pad to equal parts.
  bool find_summed(Chain& out) const {
    const Instruction& scatter = c_[out.collective];
    Id summed = scatter.operands[0];
    if (reduction_by(program_, scatter) != Reduction::kSum || !is_read_once(summed)) return false;
    if (lengthens(summed, out.dim)) {
      out.replaced.push_back(summed);
      summed = c_[summed].operands[0];
    }
    if (!is_read_once(summed) || !is_dot(summed)) return false;
    // A scatter of narrow floats rounds once; permutes would round at each member.
    if (const DType dtype = scatter.type.dtype(); is_float(dtype) && dtype_size(dtype) < 4) return false;
    out.length = c_[summed].type.dim(out.dim);
    out.dots.push_back({summed, dim_where(summed, kResult, out.dim), -1});
    return true;
  }

  [[nodiscard]] bool is_read_once(Id id) const { return at(users_, id).size() == 1 && id != c_.root; }
  [[nodiscard]] bool is_dot(Id id) const {
    const Instruction& dot = c_[id];
    const DType dtype = dot.type.is_array() ? dot.type.dtype() : DType::kPred;
    return attributes_if<DotAttributes>(dot.attributes) != nullptr && dot.operands.size() == 2 &&
           dtype != DType::kPred && !is_narrow(dtype) && !at(ordered_, id);
  }
  [[nodiscard]] DotDim dim_where(Id dot, std::size_t place, int dim) const {
    const Instruction& d = c_[dot];
    for (const DotDim& one : dims_of(*attributes_if<DotAttributes>(d.attributes), c_[d.operands[0]].type.ndim(),
                                     c_[d.operands[1]].type.ndim()))
      if (one.at(place) == dim) return one;
    ensure(false, "dim {} is none of dot %{}", dim, d.name);
    return {};
  }

  // Whether the value differs on all members of each group, according to the shardings of the parameters it depends on.
  // Each member of a chain adds in a different order, so results that should be equal on several members would differ
  // in their last bits.
  [[nodiscard]] bool differs(Id id, const std::vector<std::vector<std::int64_t>>& groups) const {
    constexpr std::size_t kFarthest = 64;
    std::vector<Id> sources = {id};
    for (std::size_t k = 0; k < sources.size() && k < kFarthest; ++k) {
      const Instruction& source = c_[sources[k]];
      if (source.op->role == Role::kParameter && has_other_tiles(source, groups)) return true;
      if (source.op->role != Role::kPlain || has_side_effect(source)) continue;
      for (const Id operand : source.operands)
        if (std::find(sources.begin(), sources.end(), operand) == sources.end()) sources.push_back(operand);
    }
    return false;
  }
  static bool has_other_tiles(const Instruction& parameter, const std::vector<std::vector<std::int64_t>>& groups) {
    if (!parameter.sharding || !parameter.type.is_array() || !parameter.sharding->front().is_tiled()) return false;
    const Sharding& sharding = parameter.sharding->front();
    for (const auto& group : groups) {
      std::set<Dims> tiles;
      for (const std::int64_t device : group) {
        Dims tile;
        for (const auto& dim : sharding.dims)
          tile.push_back(sharding.mesh.coordinate(sharding.mesh.position_of(device), dim.axes));
        if (!tiles.insert(tile).second) return false;
      }
    }
    return true;
  }

  // Whether the instruction is a slice that only removes the end of `dim`.
  [[nodiscard]] bool trims(Id id, int dim) const {
    const auto* slice = attributes_if<SliceAttributes>(c_[id].attributes);
    if (slice == nullptr || at(ordered_, id)) return false;
    const Dims& before = c_[c_[id].operands[0]].type.dims();
    for (int d = 0; d < isize(before); ++d) {
      const SliceRange& range = at(slice->slice, d);
      if (range.start != 0 || range.stride != 1 || (d != dim && range.limit != at(before, d))) return false;
    }
    return true;
  }
  // Whether the instruction is a pad that only adds zeros at the end of `dim`.
  [[nodiscard]] bool lengthens(Id id, int dim) const {
    const auto* pad = attributes_if<PadAttributes>(c_[id].attributes);
    if (pad == nullptr || at(ordered_, id)) return false;
    const auto* with = attributes_if<ConstantAttributes>(c_[c_[id].operands[1]].attributes);
    if (with == nullptr || !(with->value == Literal(with->value.type()))) return false;
    for (int d = 0; d < isize(pad->padding); ++d) {
      const PaddingDim& one = at(pad->padding, d);
      if (one.low != 0 || one.interior != 0 || one.high < 0 || (d != dim && one.high != 0)) return false;
    }
    return true;
  }

  // The modelled time of the collective and then the dots, minus that of one part and then g-1 times the longer of a
  // permute and a part.
  [[nodiscard]] double gain_of(const Chain& chain) const {
    const Instruction& collective = c_[chain.collective];
    const Link link = link_of(program_, collective, machine_.links());
    const auto hops = chain.size() - 1;
    const auto bytes = (chain.gathers ? c_[collective.operands[0]] : collective).type.byte_size();
    double apart = exchange_seconds(link, hops, hops * bytes);
    double part = 0;
    double made_room = 0;  // time to initialize the results into which parts are written
    for (const ChainDot& dot : chain.dots) {
      const double result = bytes_of(dot.id);
      const OpView view = view_of(program_, c_, c_[dot.id]);
      const double flops = work_seconds(view, factor_map(view), {}, flops_of(view), 0, machine_);
      const double read = bytes_of(c_[dot.id].operands[0]) + bytes_of(c_[dot.id].operands[1]);
      apart += flops + (read + result) / machine_.memory_bytes_per_second();
      part +=
          flops / static_cast<double>(chain.size()) + bytes_of_part(chain, dot) / machine_.memory_bytes_per_second();
      if (chain.gathers && dot.dim.at(kResult) >= 0) made_room += result / machine_.memory_bytes_per_second();
    }
    const double hop = exchange_seconds(link, 1, bytes);
    return apart - (part + static_cast<double>(hops) * std::max(hop, part) + made_room);
  }
  [[nodiscard]] double bytes_of(Id id) const { return static_cast<double>(c_[id].type.byte_size()); }
  // The bytes that one part reads and writes. It counts sliced operands again for the slice, and results again for the
  // write or the addition.
  [[nodiscard]] double bytes_of_part(const Chain& chain, const ChainDot& dot) const {
    const auto share = 1 / static_cast<double>(chain.size());
    double sum = 0;
    for (int side = 0; side < 2; ++side) {
      const double bytes = bytes_of(at(c_[dot.id].operands, side));
      const double factor = side == dot.moving ? share : 3 * share;
      sum += bytes * (dot.dim.at(static_cast<std::size_t>(side)) >= 0 ? factor : 1);
    }
    const bool adds = !chain.gathers || dot.dim.at(kResult) < 0;
    return sum + bytes_of(dot.id) * (adds ? 4 : 3) * (dot.dim.at(kResult) >= 0 ? share : 1);
  }

  const Program& program_;
  const Computation& c_;
  const MachineModel& machine_;
  std::vector<std::vector<Id>> users_;
  std::vector<bool> ordered_;
};

}  // namespace

std::vector<Chain> find_chains(const Program& program, const Computation& computation, const MachineModel& machine) {
  return Finder(program, computation, machine).run();
}

}  // namespace tessera
