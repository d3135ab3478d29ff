// SPDX-License-Identifier: Apache-2.0
#include "localize/exchange_layout.h"

#include <algorithm>
#include <numeric>

#include "tessera/base/text.h"

namespace tessera::reshard {
namespace {

std::int64_t entries(const PieceRound& round) { return isize(round.start); }

// The start of a round's piece along a dim, on the devices that receive it.
DeviceColumn starts_of(const PieceRound& round, int dim) {
  DeviceColumn out(round.start.size());
  for (std::int64_t device = 0; device < entries(round); ++device)
    if (receives(round, device)) at(out, device) = at(at(round.start, device), dim);
  return out;
}

bool is_uniform(const DeviceColumn& column) { return common_number(column).has_value(); }
std::int64_t uniform_start(const PieceRound& round, int dim) { return *common_number(starts_of(round, dim)); }

// ---- adjacent pieces
// -----------------------------------------------------------------------------------------------------

// The only dim along which pieces are parts of the result, if every piece has the same position on all devices; else
// -1.
int common_dim(const Exchange& exchange, const Dims& result) {
  int along = -1;
  for (const PieceRound& round : exchange.rounds)
    for (int d = 0; d < isize(result); ++d) {
      const DeviceColumn starts = starts_of(round, d);
      if (!is_uniform(starts)) return -1;
      if (at(round.sizes, d) == at(result, d) && *common_number(starts) == 0) continue;
      if (along >= 0 && along != d) return -1;
      along = d;
    }
  return along;
}

// False if pieces overlap or exceed the result.
bool side_by_side(const Exchange& exchange, const Dims& result, ExchangeLayout& out) {
  const int dim = common_dim(exchange, result);
  if (dim < 0) return false;
  std::vector<std::pair<std::int64_t, int>> order;
  for (int r = 0; r < isize(exchange.rounds); ++r) order.emplace_back(uniform_start(at(exchange.rounds, r), dim), r);
  std::sort(order.begin(), order.end());
  std::int64_t end = 0;
  for (const auto& [start, r] : order) {
    if (start < end) return false;
    end = start + at(at(exchange.rounds, r).sizes, dim);
  }
  if (end > at(result, dim)) return false;
  out.form = ExchangeLayout::Form::kSideBySide;
  out.dim = dim;
  for (const auto& [start, r] : order) {
    out.rounds.push_back({r, {}});
    for (int d = 0; d < isize(result); ++d) out.rounds.back().start.push_back(starts_of(at(exchange.rounds, r), d));
  }
  return true;
}

// ---- a run ----------------------------------------------------------------------------------------------------------

// The only dim along which pieces are parts of the result; -1 if there are several.
int exchanged_dim(const Exchange& exchange, const Dims& result) {
  int along = -1;
  for (const PieceRound& round : exchange.rounds)
    for (int d = 0; d < isize(result); ++d) {
      const DeviceColumn starts = starts_of(round, d);
      const bool covers_dim = at(round.sizes, d) == at(result, d) && is_uniform(starts) && *common_number(starts) == 0;
      if (covers_dim) continue;
      if (along >= 0 && along != d) return -1;
      along = d;
    }
  return along < 0 && !result.empty() ? 0 : along;
}

// Orders rounds such that the rounds that each device receives are consecutive.
class Run {
 public:
  Run(const Exchange& exchange, int dim) : exchange_(exchange), dim_(dim) {
    next_.assign(exchange.rounds.size(), -1);
    previous_ = next_;
  }

  bool find(std::int64_t length, ExchangeLayout& out) {
    const std::int64_t devices = isize(exchange_.rounds.front().start);
    std::vector<std::vector<int>> taken;
    for (std::int64_t device = 0; device < devices; ++device) {
      taken.push_back(taken_by(device));
      if (!follows(taken.back(), device)) return false;
    }
    const std::vector<std::int64_t> places = order(out);
    if (places.empty()) return false;
    out.run.resize(static_cast<std::size_t>(devices));
    std::int64_t least = 0;
    for (std::int64_t device = 0; device < devices; ++device) {
      if (at(taken, device).empty()) continue;
      const int first = at(taken, device).front();
      at(out.run, device) = at(places, first) - start(first, device);
      least = std::min(least, *at(out.run, device));
    }
    at(out.margin, dim_) = -least;
    at(out.buffer, dim_) = total_ - least;
    for (auto& place : out.run) {
      if (!place) continue;
      *place -= least;
      at(out.buffer, dim_) = std::max(at(out.buffer, dim_), *place + length);
    }
    out.form = ExchangeLayout::Form::kRun;
    out.dim = dim_;
    return true;
  }

 private:
  [[nodiscard]] std::int64_t start(int round, std::int64_t device) const {
    return at(at(at(exchange_.rounds, round).start, device), dim_);
  }
  [[nodiscard]] std::int64_t size(int round) const { return at(at(exchange_.rounds, round).sizes, dim_); }

  [[nodiscard]] std::vector<int> taken_by(std::int64_t device) const {
    std::vector<int> taken;
    for (int r = 0; r < isize(exchange_.rounds); ++r)
      if (receives(at(exchange_.rounds, r), device)) taken.push_back(r);
    std::sort(taken.begin(), taken.end(), [&](int a, int b) { return start(a, device) < start(b, device); });
    return taken;
  }

  // Records which round follows which. False if pieces are not adjacent, or if another order was recorded before.
  bool follows(const std::vector<int>& taken, std::int64_t device) {
    for (std::size_t i = 1; i < taken.size(); ++i) {
      const int a = taken[i - 1];
      const int b = taken[i];
      const PieceRound& left = at(exchange_.rounds, a);
      const PieceRound& right = at(exchange_.rounds, b);
      const auto meet = start(a, device) + size(a);
      if (start(b, device) != meet || at(at(left.high, device), dim_) != meet ||
          at(at(right.low, device), dim_) != meet)
        return false;
      if ((at(next_, a) >= 0 && at(next_, a) != b) || (at(previous_, b) >= 0 && at(previous_, b) != a)) return false;
      at(next_, a) = b;
      at(previous_, b) = a;
    }
    return true;
  }

  // The position of each round's piece in the concatenation; empty if the order is cyclic.
  std::vector<std::int64_t> order(ExchangeLayout& out) {
    std::vector<std::int64_t> places(exchange_.rounds.size(), 0);
    for (int r = 0; r < isize(places); ++r) {
      if (at(previous_, r) >= 0) continue;
      for (int member = r; member >= 0; member = at(next_, member)) {
        at(places, member) = total_;
        total_ += size(member);
        out.rounds.push_back({member, {}});
      }
    }
    return out.rounds.size() == places.size() ? places : std::vector<std::int64_t>{};
  }

  const Exchange& exchange_;
  int dim_;
  std::vector<int> next_;
  std::vector<int> previous_;
  std::int64_t total_ = 0;
};

// ---- overlapping pieces
// --------------------------------------------------------------------------------------------------

class Over {
 public:
  Over(const Exchange& exchange, const Dims& result) : exchange_(exchange), result_(result) {}

  ExchangeLayout find() {
    ExchangeLayout out;
    const int last = isize(exchange_.rounds);
    std::vector<bool> later(exchange_.rounds.size(), false);
    std::vector<int> order;
    for (int found = 0; found >= 0;) {  // from the last piece to the first
      found = -1;
      for (int r = last - 1; r >= 0 && found < 0; --r)
        if (!at(later, r) && does_no_harm(r, later)) found = r;
      if (found < 0) break;
      at(later, found) = true;
      order.push_back(found);
    }
    std::reverse(order.begin(), order.end());
    out.margin.assign(result_.size(), 0);
    out.buffer = result_;
    for (int r = 0; r < last; ++r)
      if (!at(later, r)) out.rounds.push_back({r, {}, true});
    for (const int r : order) out.rounds.push_back({r, {}});
    make_margins(out);
    for (std::size_t i = 0; i < out.rounds.size(); ++i) place(out, i);
    return out;
  }

 private:
  [[nodiscard]] const PieceRound& round(int r) const { return at(exchange_.rounds, r); }

  // Whether on every device, each element that the piece covers besides its own range is filled by a later piece or by
  // none.
  [[nodiscard]] bool does_no_harm(int r, const std::vector<bool>& later) const {
    for (int other = 0; other < isize(exchange_.rounds); ++other) {
      if (other == r || at(later, other)) continue;
      for (std::int64_t device = 0; device < entries(round(r)); ++device)
        if (receives(round(r), device) && receives(round(other), device) && covers(r, other, device)) return false;
    }
    return true;
  }
  [[nodiscard]] bool covers(int r, int other, std::int64_t device) const {
    for (int d = 0; d < isize(result_); ++d) {
      const auto start = at(at(round(r).start, device), d);
      const auto low = at(at(round(other).low, device), d);
      const auto high = at(at(round(other).high, device), d);
      if (std::min(start + at(round(r).sizes, d), high) <= std::max(start, low)) return false;
    }
    return true;
  }

  // Whether the device receives an earlier piece but not the i-th, so that the i-th must not be written over that
  // piece.
  [[nodiscard]] bool must_divert(const ExchangeLayout& out, std::size_t i, std::int64_t device) const {
    if (receives(round(out.rounds[i].round), device)) return false;
    return std::any_of(out.rounds.begin(), out.rounds.begin() + static_cast<std::ptrdiff_t>(i),
                       [&](const PlacedRound& earlier) { return receives(round(earlier.round), device); });
  }

  void make_margins(ExchangeLayout& out) {
    Dims after(result_.size(), 0);
    Dims diverted(result_.size(), 0);
    for (std::size_t i = 0; i < out.rounds.size(); ++i) {
      const PieceRound& piece = round(out.rounds[i].round);
      if (out.rounds[i].masked) continue;
      bool diverts = false;
      for (std::int64_t device = 0; device < entries(piece); ++device) {
        diverts = diverts || must_divert(out, i, device);
        if (!receives(piece, device)) continue;
        for (int d = 0; d < isize(result_); ++d) {
          const auto start = at(at(piece.start, device), d);
          at(out.margin, d) = std::max(at(out.margin, d), -start);
          at(after, d) = std::max(at(after, d), start + at(piece.sizes, d) - at(result_, d));
        }
      }
      for (int d = 0; d < isize(result_) && diverts; ++d)
        at(diverted, d) = std::max(at(diverted, d), at(piece.sizes, d));
    }
    const auto grown = [&](int d) {
      return static_cast<double>(at(diverted, d)) / static_cast<double>(std::max<std::int64_t>(at(result_, d), 1));
    };
    for (int d = 0; d < isize(result_); ++d)
      if (at(diverted, d) > 0 && (diverted_dim_ < 0 || grown(d) < grown(diverted_dim_))) diverted_dim_ = d;
    if (diverted_dim_ >= 0) at(after, diverted_dim_) = std::max(at(after, diverted_dim_), at(diverted, diverted_dim_));
    for (int d = 0; d < isize(result_); ++d) at(out.buffer, d) += at(out.margin, d) + at(after, d);
  }

  void place(ExchangeLayout& out, std::size_t i) const {
    PlacedRound& placed = out.rounds[i];
    const PieceRound& piece = round(placed.round);
    for (int d = 0; d < isize(result_); ++d) {
      placed.start.push_back(starts_of(piece, d));
      for (std::int64_t device = 0; device < entries(piece); ++device) {
        auto& start = at(placed.start.back(), device);
        if (start)
          *start += at(out.margin, d);
        else if (d == diverted_dim_ && !placed.masked && must_divert(out, i, device))
          start = at(out.margin, d) + at(result_, d);
      }
    }
  }

  const Exchange& exchange_;
  const Dims& result_;
  int diverted_dim_ = -1;
};

// The largest number of elements in memory until the result is sliced from the buffer, without the sources of the
// pieces.
std::int64_t peak_of(const Exchange& exchange, const ExchangeLayout& layout, const Dims& result) {
  std::int64_t pieces = 0;
  for (const PieceRound& round : exchange.rounds) {
    const auto size = product(round.sizes);
    if (layout.form == ExchangeLayout::Form::kOver)
      pieces = std::max(pieces, size);
    else if (!round.is_local())
      pieces += size;
  }
  return product(layout.buffer) + std::max(pieces, product(result));
}
bool has_masks(const ExchangeLayout& layout) {
  return std::any_of(layout.rounds.begin(), layout.rounds.end(), [](const PlacedRound& r) { return r.masked; });
}

}  // namespace

bool receives(const PieceRound& round, std::int64_t device) {
  if (round.start.size() == 1) return true;  // equal on all devices
  for (int d = 0; d < isize(round.sizes); ++d)
    if (at(at(round.low, device), d) >= at(at(round.high, device), d)) return false;
  return true;
}

ExchangeLayout layout_of(const Exchange& exchange, const Dims& result) {
  ExchangeLayout layout;
  if (side_by_side(exchange, result, layout)) return layout;
  ExchangeLayout over = Over(exchange, result).find();
  if (over.buffer == result && !has_masks(over)) return over;
  layout.buffer = result;
  layout.margin.assign(result.size(), 0);
  const int dim = exchanged_dim(exchange, result);
  if (dim < 0 || !Run(exchange, dim).find(at(result, dim), layout)) return over;
  constexpr std::int64_t kMuch = 3;  // a run needs one number per device, kOver one for each piece
  return has_masks(over) || peak_of(exchange, layout, result) <= kMuch * peak_of(exchange, over, result) ? layout
                                                                                                         : over;
}

ExchangeLayout with_zeros_on_idle_devices(const Exchange& exchange, ExchangeLayout layout, const Dims& result) {
  if (layout.form != ExchangeLayout::Form::kRun) return layout;
  // Pieces of permutes are zeros on an idle device. It takes what follows the last local piece.
  std::int64_t end = at(layout.margin, layout.dim);
  std::int64_t zeros = end;
  for (const PlacedRound& placed : layout.rounds) {
    const PieceRound& round = at(exchange.rounds, placed.round);
    end += at(round.sizes, layout.dim);
    if (round.is_local()) zeros = end;
  }
  for (auto& start : layout.run) {
    if (start) continue;
    start = zeros;
    at(layout.buffer, layout.dim) = std::max(at(layout.buffer, layout.dim), zeros + at(result, layout.dim));
  }
  return layout;
}

}  // namespace tessera::reshard
