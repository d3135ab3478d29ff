// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "reshard_planning/exchange_plan.h"
#include "reshard_planning/search.h"
#include "tessera/base/checked.h"
#include "tessera/base/text.h"

namespace tessera::reshard {
namespace {
constexpr int kCorners = 6;  // number of units whose extreme coordinates are combined into samples
constexpr std::size_t kSamples = 6;
}  // namespace

// Samples are devices at corners of the mesh. Those that lack the most elements at the start give the best bounds.
Bound::Bound(const Space& space) : space_(space) {
  std::vector<std::pair<std::int64_t, Sample>> ranked;
  const int corners = std::min(space.unit_count(), kCorners);
  for (unsigned set = 0; set < 1U << corners; ++set) {
    std::int64_t position = 0;
    for (int unit = 0; unit < corners; ++unit)
      if ((set >> unit & 1) != 0)
        position = with_coordinate(space.mesh, position, {at(space.units, unit)}, space.unit_size(unit) - 1);
    const Sample sample = sample_at(position);
    largest_wanted_ = std::max(largest_wanted_, sample.wanted_elements);
    ranked.emplace_back(lacking(sample, space.start), sample);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (std::size_t i = 0; i < std::min(ranked.size(), kSamples); ++i) samples_.push_back(ranked[i].second);
}

Bound::Sample Bound::sample_at(std::int64_t position) const {
  Sample sample;
  const auto there = space_.other_order ? space_.other_order->position_of(space_.mesh.device_at(position)) : position;
  for (int unit = 0; unit < space_.unit_count(); ++unit) {
    at(sample.coordinates[0], unit) = space_.mesh.coordinate(position, at(space_.units, unit));
    at(sample.coordinates[1], unit) = space_.mesh.coordinate(there, at(space_.units, unit));
  }
  for (int s = 0; s < space_.slots(); ++s) {
    at(sample.wanted, s) = interval(sample, space_.goal, s);
    sample.wanted_elements *= at(sample.wanted, s).size();
  }
  return sample;
}

Interval Bound::interval(const Sample& sample, const State& state, int slot) const {
  const DimState& dim = at(state.dims, slot);
  const auto size = at(space_.sizes, slot);
  if (dim.count() == 0) return {0, size};
  std::int64_t tile = 0;
  for (int i = 0; i < dim.count(); ++i) {
    const int unit = at(dim.units, i);
    tile = tile * space_.unit_size(unit) + at(sample.coordinates[state.to_order ? 1 : 0], unit);
  }
  return {std::min(tile * dim.length, size), std::min((tile + 1) * dim.length, size)};
}

std::int64_t Bound::lacking(const Sample& sample, const State& state) const {
  std::int64_t held = 1;
  for (int s = 0; s < space_.slots() && held > 0; ++s) {
    const Interval has = interval(sample, state, s);
    const Interval& wants = at(sample.wanted, s);
    held *= std::max<std::int64_t>(0, std::min(has.limit, wants.limit) - std::max(has.start, wants.start));
  }
  return sample.wanted_elements - held;
}

// To sum g partial values at one device takes g-1 messages per element, and each further holder of the sum takes one
// more. Evenly distributed over the devices, this is the least that the busiest device receives.
std::int64_t Bound::reduction_bytes(std::int64_t group, std::int64_t kept) const {
  Checked all = Checked(space_.rest_bytes) * kept;
  for (const auto size : space_.sizes) all *= size;
  std::int64_t devices = 1;
  for (int unit = 0; unit < space_.unit_count(); ++unit) devices *= space_.unit_size(unit);
  std::int64_t holders = devices / kept;
  for (int s = 0; s < space_.slots(); ++s) holders /= space_.tiles(at(space_.goal.dims, s));
  const Checked received = all * (group - 1 + holders - 1);
  if (!received.fits()) return 0;  // still a lower bound
  const std::int64_t bytes = received.value() / devices;
  return all.value() % devices == 0 ? bytes : std::max<std::int64_t>(0, bytes - 2);  // all-reduces round down
}

std::int64_t Bound::operator()(const State& state) const {
  const bool same = space_.from_reduction == space_.to_reduction;
  unsigned waiting = state.partial & ~static_cast<unsigned>(space_.goal.partial);
  if (!same) waiting = state.to_reduction ? 0U : state.partial;
  if (waiting != 0) {
    if (space_.goal.partial != 0) return 0;
    return std::max(largest_wanted_ * space_.rest_bytes, reduction_bytes(space_.size_of(state.partial), 1));
  }
  std::int64_t most = 0;
  for (const Sample& sample : samples_) most = std::max(most, lacking(sample, state));
  return most * space_.rest_bytes;
}

}  // namespace tessera::reshard
