// SPDX-License-Identifier: Apache-2.0
// Computes exchanges between even, nested tilings from their axes alone. Along each dim, both lists of axes are split
// into common digits. A digit then has an old axis (which selects the device that holds a value), a new axis (which
// selects the device that receives it), or both.
#include <algorithm>

#include "reshard_planning/exchange_plan.h"
#include "reshard_planning/search_space.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera::reshard {
namespace {

struct DimDigits {
  std::vector<AxisRef> before;  // split into common digits; the first min(sizes) of both form pairs
  std::vector<AxisRef> after;
  [[nodiscard]] std::size_t paired() const { return std::min(before.size(), after.size()); }
};
struct Digits {
  std::vector<AxisRef> units;
  std::vector<DimDigits> dims;
};

// Splits the first unequal pair of a dim by appending a part to `sub_axes`. kImpossible if the sizes do not nest.
enum class Pairing { kDone, kSplit, kImpossible };
Pairing pair_up(const DimDigits& dim, std::vector<AxisRef>& sub_axes) {
  for (std::size_t i = 0; i < dim.paired(); ++i) {
    const AxisRef& a = dim.before[i];
    const AxisRef& b = dim.after[i];
    if (a.size == b.size) continue;
    const AxisRef& large = a.size > b.size ? a : b;
    const auto small = std::min(a.size, b.size);
    if (large.size % small != 0) return Pairing::kImpossible;
    sub_axes.push_back({large.axis, large.pre, small});
    return Pairing::kSplit;
  }
  return Pairing::kDone;
}

std::optional<Digits> digits_of(const Placement& before, const Placement& after) {
  const Sharding& old_sharding = before.sharding;
  const Sharding& new_sharding = after.sharding;
  if (!(old_sharding.mesh == new_sharding.mesh) ||
      merged_axes(old_sharding.partial) != merged_axes(new_sharding.partial))
    return std::nullopt;
  std::vector<AxisRef> sub_axes;
  for (const Sharding* sharding : {&old_sharding, &new_sharding}) {
    for (const auto& dim : sharding->dims) append(sub_axes, merged_axes(dim.axes));
    append(sub_axes, merged_axes(sharding->partial));
    append(sub_axes, sharding->manual);
  }
  while (true) {
    auto units = common_units(old_sharding.mesh, sub_axes);
    if (!units) return std::nullopt;
    Digits out{std::move(*units), {}};
    Pairing state = Pairing::kDone;
    for (int d = 0; d < old_sharding.ndim() && state == Pairing::kDone; ++d) {
      out.dims.push_back({split_axes(merged_axes(at(old_sharding.dims, d).axes), out.units),
                          split_axes(merged_axes(at(new_sharding.dims, d).axes), out.units)});
      state = pair_up(out.dims.back(), sub_axes);
    }
    if (state == Pairing::kImpossible) return std::nullopt;
    if (state == Pairing::kDone) return out;
  }
}

bool divides(const DimPlacement& dim) { return dim.tiles * dim.length == dim.size; }

bool contains(const std::vector<AxisRef>& set, const AxisRef& ref) {
  return std::find(set.begin(), set.end(), ref) != set.end();
}

std::vector<AxisRef> tail(const std::vector<AxisRef>& list, std::size_t from) {
  return {list.begin() + static_cast<std::ptrdiff_t>(std::min(from, list.size())), list.end()};
}

// Chooses the source of every piece. A target's paired new digits determine the source's paired old ones. The target's
// other (free) digits determine which piece comes first and which replica sends it. This mapping is one to one, so
// every round is a permutation.
class EvenExchange {
 public:
  EvenExchange(const Placement& before, const Placement& after, const Digits& digits)
      : mesh_(before.sharding.mesh), before_(before), after_(after), digits_(digits) {
    std::vector<AxisRef> fixed_old;
    std::vector<AxisRef> fixed_new;
    for (const DimDigits& dim : digits.dims) {
      for (std::size_t i = 0; i < dim.paired(); ++i) {
        fixed_old.push_back(dim.before[i]);
        fixed_new.push_back(dim.after[i]);
      }
      const auto gathered = tail(dim.before, dim.paired());
      gathered_.insert(gathered_.end(), gathered.begin(), gathered.end());
    }
    fixed_ = {fixed_old, fixed_new};
    for (const AxisRef& unit : digits.units) {
      const bool free_new = !contains(fixed_new, unit);
      const bool free_old = !contains(fixed_old, unit);
      if (free_new && !free_old) from_.push_back(unit);
      if (free_old && !free_new) to_.push_back(unit);
    }
  }

  Exchange run() const {
    Exchange out;
    const auto pieces = axes_size(gathered_);
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      PieceRound round = make_round(piece);
      if (round.is_local())
        out.rounds.insert(out.rounds.begin(), std::move(round));
      else
        out.rounds.push_back(std::move(round));
    }
    return out;
  }

 private:
  [[nodiscard]] std::int64_t source_of(std::int64_t target, std::int64_t piece) const {
    std::int64_t source = target;
    source = with_coordinate(mesh_, source, to_, mesh_.coordinate(target, from_));
    source = with_coordinate(mesh_, source, fixed_.first, mesh_.coordinate(target, fixed_.second));
    std::int64_t rest = piece;
    for (const AxisRef& ref : gathered_) {
      source = with_coordinate(mesh_, source, {ref}, turned(mesh_.coordinate(source, ref), rest % ref.size, ref.size));
      rest /= ref.size;
    }
    return source;
  }

  // Adds `value` and `by` digit by digit without carry, over prime digits. If all digits are binary, offsets are sums
  // over binary digits.
  static std::int64_t turned(std::int64_t value, std::int64_t by, std::int64_t size) {
    std::int64_t out = 0;
    std::int64_t scale = 1;
    for (std::int64_t prime = 2; size > 1; ++prime)
      for (; size % prime == 0; size /= prime) {
        out += (value + by) % prime * scale;
        scale *= prime;
        value /= prime;
        by /= prime;
      }
    return out;
  }

  [[nodiscard]] PieceRound make_round(std::int64_t piece) const {
    const int ndim = isize(before_.dims);
    const auto devices = mesh_.device_count();
    PieceRound round;
    round.sizes.resize(static_cast<std::size_t>(ndim));
    for (int d = 0; d < ndim; ++d) at(round.sizes, d) = std::min(at(before_.dims, d).length, at(after_.dims, d).length);
    const std::vector<Dims> zeros(static_cast<std::size_t>(devices), Dims(static_cast<std::size_t>(ndim), 0));
    round.send = round.start = round.low = round.high = zeros;
    bool local = true;
    for (std::int64_t target = 0; target < devices; ++target) {
      const auto source = source_of(target, piece);
      const auto u = mesh_.device_at(source);
      const auto v = mesh_.device_at(target);
      for (int d = 0; d < ndim; ++d) {
        const DimDigits& dim = at(digits_.dims, d);
        const auto size = at(round.sizes, d);
        const auto low = mesh_.coordinate(source, tail(dim.before, dim.paired())) * size;
        at(at(round.send, u), d) = mesh_.coordinate(target, tail(dim.after, dim.paired())) * size;
        at(at(round.start, v), d) = at(at(round.low, v), d) = low;
        at(at(round.high, v), d) = low + size;
      }
      local = local && u == v;
      round.pairs.emplace_back(u, v);
    }
    if (local) round.pairs.clear();
    std::sort(round.pairs.begin(), round.pairs.end());
    return round;
  }

  const Mesh& mesh_;
  const Placement& before_;
  const Placement& after_;
  const Digits& digits_;
  std::vector<AxisRef> gathered_;
  std::pair<std::vector<AxisRef>, std::vector<AxisRef>> fixed_;
  std::vector<AxisRef> from_;  // free in the target only, matched one to one with to_
  std::vector<AxisRef> to_;    // free in the source only
};

}  // namespace

std::optional<PieceCount> count_pieces(const Placement& before, const Placement& after) {
  for (int d = 0; d < isize(before.dims); ++d)
    if (!divides(at(before.dims, d)) || !divides(at(after.dims, d))) return std::nullopt;
  const auto digits = digits_of(before, after);
  if (!digits) return std::nullopt;
  PieceCount count{1, true};
  for (const DimDigits& dim : digits->dims) {
    for (std::size_t i = 0; i < dim.paired(); ++i) count.local = count.local && dim.before[i] == dim.after[i];
    count.pieces *= axes_size(tail(dim.before, dim.paired()));
  }
  return count;
}

Exchange exchange_even(const Placement& before, const Placement& after) {
  const auto digits = digits_of(before, after);
  ensure(digits.has_value(), "no even exchange from {} to {}", before.sharding, after.sharding);
  return EvenExchange(before, after, *digits).run();
}

}  // namespace tessera::reshard
