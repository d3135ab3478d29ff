// SPDX-License-Identifier: Apache-2.0
#include "reshard_planning/exchange_plan.h"

#include <algorithm>
#include <map>

#include "reshard_planning/search_space.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera::reshard {
namespace {

std::vector<Dims> per_device(std::int64_t devices, int ndim) {
  return std::vector<Dims>(static_cast<std::size_t>(devices), Dims(static_cast<std::size_t>(ndim), 0));
}

PieceRound empty_round(std::int64_t devices, int ndim) {
  PieceRound round;
  round.sizes.assign(static_cast<std::size_t>(ndim), 0);
  round.send = round.start = round.low = round.high = per_device(devices, ndim);
  return round;
}

// The range of tiles of `tiling` that intersect `range`.
std::pair<std::int64_t, std::int64_t> tiles_within(const DimPlacement& tiling, const Interval& range) {
  if (range.size() <= 0 || tiling.length <= 0) return {0, 0};
  if (tiling.tiles == 1) return {0, 1};
  return {range.start / tiling.length, ceil_div(range.limit, tiling.length)};
}

Interval meet(const Interval& a, const Interval& b) {
  const auto start = std::max(a.start, b.start);
  return {start, std::max(start, std::min(a.limit, b.limit))};
}

// A transfer of the box `box` of the global array from `source` to `target`.
struct Transfer {
  std::int64_t source = 0;
  std::int64_t target = 0;
  std::vector<Interval> box;
};

// Adds a transfer to a round. All pieces have the length of the round's longest. A piece that would exceed the sender's
// buffer starts earlier, and the receiver masks the surplus.
void enter(PieceRound& round, const Placement& before, const Placement& after, const Transfer& transfer) {
  for (int d = 0; d < isize(round.sizes); ++d) {
    const Interval& range = at(transfer.box, d);
    const auto source_start = before.interval(transfer.source, d).start;
    const auto target_start = after.interval(transfer.target, d).start;
    const auto send = std::min(range.start - source_start, at(before.dims, d).length - at(round.sizes, d));
    at(at(round.send, transfer.source), d) = send;
    at(at(round.start, transfer.target), d) = source_start + send - target_start;
    at(at(round.low, transfer.target), d) = range.start - target_start;
    at(at(round.high, transfer.target), d) = range.limit - target_start;
  }
}

PieceRound round_of(const Placement& before, const Placement& after, const std::vector<Transfer>& transfers) {
  const int ndim = isize(before.dims);
  PieceRound round = empty_round(before.sharding.mesh.device_count(), ndim);
  for (const Transfer& transfer : transfers)
    for (int d = 0; d < ndim; ++d) at(round.sizes, d) = std::max(at(round.sizes, d), at(transfer.box, d).size());
  bool local = true;
  for (const Transfer& transfer : transfers) {
    enter(round, before, after, transfer);
    local = local && transfer.source == transfer.target;
  }
  if (!local)
    for (const Transfer& transfer : transfers) round.pairs.emplace_back(transfer.source, transfer.target);
  std::sort(round.pairs.begin(), round.pairs.end());
  return round;
}

std::vector<Interval> box_of(const Placement& placement, std::int64_t device) {
  std::vector<Interval> box;
  for (int d = 0; d < isize(placement.dims); ++d) box.push_back(placement.interval(device, d));
  return box;
}

std::int64_t volume(const std::vector<Interval>& box) {
  std::int64_t out = 1;
  for (const Interval& interval : box) out *= interval.size();
  return out;
}

}  // namespace

std::int64_t Exchange::elements() const {
  std::int64_t out = 0;
  for (const PieceRound& round : rounds)
    if (!round.is_local()) out += product(round.sizes);
  return out;
}

int Exchange::permutes() const {
  return static_cast<int>(
      std::count_if(rounds.begin(), rounds.end(), [](const auto& round) { return !round.is_local(); }));
}

std::int64_t with_coordinate(const Mesh& mesh, std::int64_t position, const std::vector<AxisRef>& axes,
                             std::int64_t value) {
  for (int i = isize(axes) - 1; i >= 0; --i) {
    const AxisRef& ref = at(axes, i);
    std::int64_t stride = at(mesh.axes(), ref.axis).size / (ref.pre * ref.size);
    for (int a = ref.axis + 1; a < mesh.axis_count(); ++a) stride *= at(mesh.axes(), a).size;
    position += (value % ref.size - mesh.coordinate(position, ref)) * stride;
    value /= ref.size;
  }
  return position;
}

RowCount count_realign(const DimPlacement& before, const DimPlacement& after) {
  std::map<std::int64_t, std::int64_t> longest;  // by source tile - target tile
  for (std::int64_t tile = 0; tile < after.tiles; ++tile) {
    const Interval wanted = after.interval(tile);
    const auto [first, last] = tiles_within(before, wanted);
    for (auto source = first; source < last; ++source) {
      auto& most = longest[source - tile];
      most = std::max(most, meet(wanted, before.interval(source)).size());
    }
  }
  RowCount count;
  for (const auto& [shift, rows] : longest) {
    if (shift == 0) continue;
    count.rows += rows;
    ++count.permutes;
  }
  return count;
}

Exchange exchange_lengths(const Placement& before, const Placement& after, int dim) {
  const Mesh& mesh = before.sharding.mesh;
  const auto& axes = at(before.sharding.dims, dim).axes;
  std::map<std::int64_t, std::vector<Transfer>> by_shift;
  for (std::int64_t target = 0; target < mesh.device_count(); ++target) {
    const auto position = mesh.position_of(target);
    const auto tile = mesh.coordinate(position, axes);
    std::vector<Interval> box = box_of(after, target);
    const Interval wanted = at(box, dim);
    if (volume(box) == 0) continue;
    const auto [first, last] = tiles_within(at(before.dims, dim), wanted);
    for (auto source = first; source < last; ++source) {
      at(box, dim) = meet(wanted, at(before.dims, dim).interval(source));
      by_shift[source - tile].push_back({mesh.device_at(with_coordinate(mesh, position, axes, source)), target, box});
    }
  }
  Exchange out;
  if (by_shift.contains(0)) out.rounds.push_back(round_of(before, after, by_shift[0]));
  for (const auto& [shift, transfers] : by_shift)
    if (shift != 0) out.rounds.push_back(round_of(before, after, transfers));
  return out;
}

namespace {

// The devices that hold each tile of the old placement.
class Holders {
 public:
  explicit Holders(const Placement& placement) {
    const Sharding& sharding = placement.sharding;
    for (std::int64_t device = 0; device < sharding.mesh.device_count(); ++device) {
      Dims tile;
      const auto position = sharding.mesh.position_of(device);
      for (const auto& dim : sharding.dims) tile.push_back(sharding.mesh.coordinate(position, dim.axes));
      by_tile_[tile].push_back(device);
    }
  }
  [[nodiscard]] const std::vector<std::int64_t>& of(const Dims& tile) const { return by_tile_.at(tile); }

 private:
  std::map<Dims, std::vector<std::int64_t>> by_tile_;
};

struct Wanted {
  std::int64_t target;
  Dims tile;
  std::vector<Interval> box;
};

// The parts of a device's new tile, one for each old tile that it intersects.
std::vector<Wanted> parts_of(const Placement& before, const Placement& after, std::int64_t device) {
  std::vector<Wanted> parts;
  const auto box = box_of(after, device);
  if (volume(box) == 0) return parts;
  Dims first;
  Dims counts;
  for (int d = 0; d < isize(box); ++d) {
    const auto [from, to] = tiles_within(at(before.dims, d), at(box, d));
    first.push_back(from);
    counts.push_back(to - from);
  }
  for_each_index(counts, [&](const Dims& index) {
    Wanted part{device, {}, {}};
    for (int d = 0; d < isize(box); ++d) {
      part.tile.push_back(at(first, d) + at(index, d));
      part.box.push_back(meet(at(box, d), at(before.dims, d).interval(part.tile.back())));
    }
    parts.push_back(std::move(part));
  });
  return parts;
}

// An incomplete round. Each device sends and receives at most once in it.
struct OpenRound {
  std::vector<bool> sends, receives;
  Dims sizes;
  std::vector<Transfer> transfers;

  [[nodiscard]] std::int64_t growth(const std::vector<Interval>& box) const {
    std::int64_t grown = 1;
    for (int d = 0; d < isize(box); ++d) grown *= std::max(at(sizes, d), at(box, d).size());
    return grown - product(sizes);
  }
  void take(Transfer transfer) {
    sends[static_cast<std::size_t>(transfer.source)] = true;
    receives[static_cast<std::size_t>(transfer.target)] = true;
    for (int d = 0; d < isize(sizes); ++d) at(sizes, d) = std::max(at(sizes, d), at(transfer.box, d).size());
    transfers.push_back(std::move(transfer));
  }
};

void place(std::vector<OpenRound>& rounds, const Wanted& part, const std::vector<std::int64_t>& holders,
           std::int64_t devices) {
  OpenRound* best = nullptr;
  std::int64_t source = holders.front();
  std::int64_t least = volume(part.box);  // the cost of a new round
  for (OpenRound& round : rounds) {
    if (round.receives[static_cast<std::size_t>(part.target)]) continue;
    const auto growth = round.growth(part.box);
    if (growth > least || (best != nullptr && growth == least)) continue;
    const auto free = std::find_if(holders.begin(), holders.end(),
                                   [&](std::int64_t holder) { return !round.sends[static_cast<std::size_t>(holder)]; });
    if (free == holders.end()) continue;
    best = &round;
    source = *free;
    least = growth;
  }
  if (best == nullptr) {
    const std::vector<bool> none(static_cast<std::size_t>(devices), false);
    rounds.push_back({none, none, Dims(part.box.size(), 0), {}});
    best = &rounds.back();
  }
  best->take({source, part.target, part.box});
}

}  // namespace

Exchange exchange_any(const Placement& before, const Placement& after) {
  const auto devices = before.sharding.mesh.device_count();
  const Holders holders(before);
  std::vector<Transfer> local;
  std::vector<Wanted> lacking;
  for (std::int64_t device = 0; device < devices; ++device)
    for (Wanted& part : parts_of(before, after, device)) {
      const auto& owners = holders.of(part.tile);
      if (std::find(owners.begin(), owners.end(), device) != owners.end())
        local.push_back({device, device, std::move(part.box)});
      else
        lacking.push_back(std::move(part));
    }
  std::stable_sort(lacking.begin(), lacking.end(),
                   [](const Wanted& a, const Wanted& b) { return volume(a.box) > volume(b.box); });
  std::vector<OpenRound> rounds;
  for (const Wanted& part : lacking) place(rounds, part, holders.of(part.tile), devices);
  Exchange out;
  if (!local.empty()) out.rounds.push_back(round_of(before, after, local));
  for (const OpenRound& round : rounds) out.rounds.push_back(round_of(before, after, round.transfers));
  return out;
}

Exchange exchange_between(const Placement& before, const Placement& after) {
  return count_pieces(before, after) ? exchange_even(before, after) : exchange_any(before, after);
}

}  // namespace tessera::reshard
