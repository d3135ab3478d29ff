// SPDX-License-Identifier: Apache-2.0
#include "localize/sharded_concatenate.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "reshard_planning/exchange_rounds.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

using reshard::Round;
using reshard::Rows;

// The dim along which the op concatenates: index i of every operand's window reads one element, at offset i from a
// first one. No window extends beyond its operand, so each index belongs to one operand.
std::optional<int> shifted_dim(const OpView& view, const FactorMap& map) {
  if (view.op.outside != nullptr || view.op.elementwise || map.windows.size() != map.operands.size() ||
      map.results.size() != 1)
    return std::nullopt;
  for (int i = 0; i < isize(map.windows); ++i) {
    const Window& w = at(map.windows, i);
    const bool shifts = w.operand == i && w.dim == map.windows.front().dim && w.factor == map.windows.front().factor &&
                        w.stride == 1 && w.dilation == 1 && w.extent == 1 && !w.reversed;
    if (!shifts) return std::nullopt;
  }
  return map.windows.empty() ? std::nullopt : std::optional(map.windows.front().dim);
}

class JoinFinder {
 public:
  JoinFinder(const Program& program, const Computation& computation) : program_(program), computation_(computation) {}

  std::optional<ShardedConcatenate> find(const Instruction& instruction) {
    const OpView view = view_of(program_, computation_, instruction);
    const FactorMap map = factor_map(view);
    const auto dim = shifted_dim(view, map);
    if (!dim || instruction.operands.size() < 2 || !has_tiled_sharding(instruction)) return std::nullopt;
    const Sharding& sharding = instruction.sharding->front();
    ShardedConcatenate join{*dim, at(sharding.dims, *dim).axes, {}, {}, {}};
    if (axes_size(join.axes) == 1 || at(map.results.front(), *dim) != DimFactors{map.windows.front().factor})
      return std::nullopt;
    std::int64_t end = 0;
    for (int i = 0; i < isize(instruction.operands); ++i) {
      const Id operand = at(instruction.operands, i);
      if (at(map.windows, i).low != end) return std::nullopt;
      const auto length = computation_[operand].type.dim(*dim);
      end += length;
      if (!add(join, operand, length, sharding)) return std::nullopt;
    }
    return end == instruction.type.dim(*dim) ? std::optional(join) : std::nullopt;
  }

 private:
  static bool has_tiled_sharding(const Instruction& instruction) {
    if (!instruction.type.is_array() || !instruction.sharding || instruction.sharding->size() != 1) return false;
    const Sharding& sharding = instruction.sharding->front();
    return sharding.is_tiled() && sharding.manual.empty() && !sharding.is_partial();
  }
  [[nodiscard]] bool is_sharded_like(const Instruction& value, const Sharding& sharding) const {
    if (!has_tiled_sharding(value) || !(value.sharding->front().mesh == sharding.mesh)) return false;
    for (int d = 0; d < sharding.ndim(); ++d)
      if (merged_axes(at(value.sharding->front().dims, d).axes) != merged_axes(at(sharding.dims, d).axes)) return false;
    return true;
  }

  // Adds the operand, or the source of the slice if the source has the right sharding and the slice has no other
  // reader.
  bool add(ShardedConcatenate& join, Id operand, std::int64_t length, const Sharding& sharding) {
    std::int64_t start = 0;
    Id source = sliced_source(operand, join.dim, start);
    if (!is_sharded_like(computation_[source], sharding)) {
      source = operand;
      start = 0;
    }
    if (!is_sharded_like(computation_[source], sharding)) return false;
    auto place = std::find(join.values.begin(), join.values.end(), source);
    if (place == join.values.end()) {
      join.sizes.push_back(computation_[source].type.dim(join.dim));
      place = join.values.insert(place, source);
    }
    join.parts.push_back({static_cast<int>(place - join.values.begin()), start, length});
    return true;
  }

  Id sliced_source(Id id, int dim, std::int64_t& start) {
    Id source = id;
    std::int64_t skipped = 0;
    while (uses(id) == 1) {
      const Instruction& instruction = computation_[id];
      if (instruction.op->role != Role::kCopy) {
        const OpView view = view_of(program_, computation_, instruction);
        if (instruction.operands.size() != 1 || instruction.op->role != Role::kPlain) break;
        const FactorMap map = factor_map(view);
        const auto sliced_dim = shifted_dim(view, map);
        if (!sliced_dim || *sliced_dim != dim) break;
        skipped -= map.windows.front().low;
      }
      id = instruction.operands.front();
      if (!computation_[id].type.is_array()) break;
      if (computation_[id].op->role == Role::kCopy) continue;
      source = id;
      start = skipped;
    }
    return source;
  }

  int uses(Id id) {
    if (uses_.empty()) {
      uses_.assign(computation_.instructions.size(), 0);
      ++at(uses_, computation_.root);
      for (const Instruction& instruction : computation_.instructions)
        for (const Id operand : instruction.operands) ++at(uses_, operand);
    }
    return at(uses_, id);
  }

  const Program& program_;
  const Computation& computation_;
  std::vector<int> uses_;
};

// ---- rows -----------------------------------------------------------------------------------------------------------

struct PartRows {
  int part = 0;
  Rows rows;
};

// The rows that every tile takes from every part.
std::vector<PartRows> rows_of(const ShardedConcatenate& join, const std::vector<Dims>& shards, std::int64_t length,
                              std::int64_t tiles) {
  std::vector<PartRows> out;
  std::int64_t place = 0;
  for (int p = 0; p < isize(join.parts); ++p) {
    const ShardedConcatenate::Part& part = at(join.parts, p);
    const auto shard = at(at(shards, part.value), join.dim);
    // Split at the ends of source and result tiles.
    for (std::int64_t done = 0; done < part.length;) {
      const auto from = part.start + done;
      const auto to = place + done;
      const auto count = std::min({part.length - done, shard - from % shard, length - to % length});
      out.push_back({p, {from / shard, to / length, {from % shard, from % shard + count}, to % length}});
      done += count;
    }
    place += part.length;
  }
  ensure(place <= length * tiles, "a concatenation of {} elements does not fit {} tiles of {}", place, tiles, length);
  return out;
}

std::int64_t wrapped(std::int64_t shift, std::int64_t tiles) { return (shift % tiles + tiles) % tiles; }

// One round per combination of a distance between tiles and an offset between source and target rows.
std::vector<Round> slabs_of(const std::vector<PartRows>& rows, int value, std::int64_t tiles) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Rows>> groups;
  for (const PartRows& piece : rows)
    groups[{wrapped(piece.rows.source - piece.rows.target, tiles), piece.rows.rows.start - piece.rows.place}].push_back(
        piece.rows);
  std::vector<Round> out;
  for (auto& [key, pieces] : groups) {
    std::vector<bool> receives(static_cast<std::size_t>(tiles), false);
    for (const Rows& piece : pieces) {
      if (receives[static_cast<std::size_t>(piece.target)]) return {};  // a tile would receive two pieces in one round
      receives[static_cast<std::size_t>(piece.target)] = true;
    }
    out.push_back(make_round(std::move(pieces), Round::Form::kSlab, value));
  }
  return out;
}

// One round per combination of a distance between tiles and a part; then rounds are combined.
std::vector<Round> runs_of(const std::vector<PartRows>& rows, int value, std::int64_t tiles) {
  std::map<std::pair<std::int64_t, int>, std::vector<Rows>> groups;
  for (const PartRows& piece : rows)
    groups[{wrapped(piece.rows.source - piece.rows.target, tiles), piece.part}].push_back(piece.rows);
  std::vector<Round> out;
  for (auto& [key, pieces] : groups) out.push_back(make_round(std::move(pieces), Round::Form::kByTile, value));
  return joined(std::move(out), static_cast<std::size_t>(tiles));
}

// The rounds with the fewest rows, then with the fewest permutes.
std::vector<Round> better(std::vector<Round> slabs, std::vector<Round> runs) {
  const auto cost = [](const std::vector<Round>& rounds) {
    return std::tuple(count_rows(rounds).rows, count_rows(rounds).permutes, rounds.size());
  };
  if (!slabs.empty() && cost(slabs) <= cost(runs)) return slabs;
  return runs;
}

}  // namespace

std::optional<ShardedConcatenate> sharded_concatenate_of(const Program& program, const Computation& computation,
                                                         const Instruction& instruction) {
  return JoinFinder(program, computation).find(instruction);
}

std::optional<reshard::Exchange> exchange_sharded_concatenate(const Mesh& mesh, const ShardedConcatenate& join,
                                                              const std::vector<Dims>& shards, std::int64_t length) {
  constexpr int kMostPermutes = 16;
  const auto tiles = axes_size(join.axes);
  std::vector<Round> rounds;
  const auto all = rows_of(join, shards, length, tiles);
  for (const bool local : {true, false})
    for (int v = 0; v < isize(join.values); ++v) {
      std::vector<PartRows> rows;
      for (const PartRows& piece : all)
        if (at(join.parts, piece.part).value == v && (piece.rows.source == piece.rows.target) == local)
          rows.push_back(piece);
      if (rows.empty()) continue;
      auto found = better(slabs_of(rows, v, tiles), runs_of(rows, v, tiles));
      const auto count = count_rows(found);
      const auto gathered = (tiles - 1) * at(at(shards, v), join.dim);
      if (count.rows > gathered || count.permutes > kMostPermutes) return std::nullopt;
      rounds.insert(rounds.end(), found.begin(), found.end());
    }
  reshard::Exchange out;
  for (const Round& round : rounds)
    out.rounds.push_back(write_round(mesh, {join.dim, join.axes}, at(shards, round.value), round));
  return out;
}

}  // namespace tessera
