// SPDX-License-Identifier: Apache-2.0
#include "localize/halo_content.h"

#include <algorithm>
#include <boost/unordered/unordered_flat_set.hpp>

#include "tessera/base/text.h"

namespace tessera::reshard {
namespace {

// The rows of one device's buffer that may differ from zero.
class DeviceRows {
 public:
  DeviceRows(const Exchange& exchange, const ExchangeLayout& layout, int dim, std::int64_t length)
      : exchange_(exchange), layout_(layout), dim_(dim), all_{0, length} {
    for (const PieceRound& round : exchange.rounds) {
      auto& targets = targets_.emplace_back();
      for (const auto& [source, target] : round.pairs) targets.insert(target);
    }
  }

  [[nodiscard]] std::vector<Interval> of(std::int64_t device) const {
    return layout_.form == ExchangeLayout::Form::kRun ? of_run(device) : of_pieces(device);
  }

 private:
  [[nodiscard]] const PieceRound& round(const PlacedRound& placed) const { return at(exchange_.rounds, placed.round); }

  // Whether the device's piece consists of zeros.
  [[nodiscard]] bool is_zero(const PlacedRound& placed, std::int64_t device) const {
    return !round(placed).is_local() && !at(targets_, placed.round).contains(device);
  }

  [[nodiscard]] std::vector<Interval> of_pieces(std::int64_t device) const {
    std::vector<Interval> out;
    for (const PlacedRound& placed : layout_.rounds) {
      const PieceRound& piece = round(placed);
      if (is_zero(placed, device)) continue;
      if (!receives(piece, device)) return {all_};  // a local piece at any position
      const auto start = at(at(piece.start, piece.start.size() == 1 ? 0 : device), dim_);
      out.push_back({start, start + at(piece.sizes, dim_)});
    }
    return out;
  }

  [[nodiscard]] std::vector<Interval> of_run(std::int64_t device) const {
    const auto& run = at(layout_.run, layout_.run.size() == 1 ? 0 : device);
    if (!run || layout_.dim != dim_) return {all_};
    std::vector<Interval> out;
    std::int64_t start = at(layout_.margin, dim_) - *run;
    for (const PlacedRound& placed : layout_.rounds) {
      const auto size = at(round(placed).sizes, dim_);
      if (!is_zero(placed, device)) out.push_back({start, start + size});
      start += size;
    }
    return out;
  }

  const Exchange& exchange_;
  const ExchangeLayout& layout_;
  int dim_;
  Interval all_;
  std::vector<boost::unordered_flat_set<std::int64_t>> targets_;  // of the permutes, by round
};

bool meets(const std::vector<Interval>& rows, const Interval& range) {
  return std::any_of(rows.begin(), rows.end(), [&](const Interval& interval) {
    return std::max(interval.start, range.start) < std::min(interval.limit, range.limit);
  });
}

}  // namespace

NonzeroRows nonzero_rows(const Mesh& mesh, const Halo& halo, const Exchange& exchange, const ExchangeLayout& layout) {
  NonzeroRows out(halo.start.size());
  const DeviceRows rows(exchange, layout, halo.dim, halo.length);
  for (std::int64_t device = 0; device < mesh.device_count(); ++device) {
    auto& own = at(out, mesh.coordinate(mesh.position_of(device), halo.axes));
    const auto more = rows.of(device);
    own.insert(own.end(), more.begin(), more.end());
  }
  return out;
}

NonzeroRows nonzero_rows(const Halo& halo, std::int64_t size) {
  NonzeroRows out;
  for (const auto start : halo.start) out.push_back({{-start, size - start}});
  return out;
}

MaskedEnds ends_with_values(const Halo& halo, const NonzeroRows& rows) {
  MaskedEnds out;
  for (std::size_t tile = 0; tile < halo.start.size(); ++tile) {
    const auto start = halo.start[tile];
    out.below = out.below || meets(rows[tile], {0, halo.kept[tile].start - start});
    out.above = out.above || meets(rows[tile], {halo.kept[tile].limit - start, halo.length});
  }
  return out;
}

}  // namespace tessera::reshard
