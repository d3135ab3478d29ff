// SPDX-License-Identifier: Apache-2.0
#include "normalize/region_collectives.h"

#include <algorithm>
#include <map>
#include <set>

#include "collective_passes/collective_match.h"
#include "tessera/sharding/mesh.h"

namespace tessera {
namespace {

using Group = std::vector<std::int64_t>;

std::vector<Group> groups_or_pairs(const Instruction& collective) {
  std::vector<Group> out;
  if (const auto* permute = attributes_if<PermuteAttributes>(collective.attributes))
    for (const auto& [source, target] : permute->source_target_pairs.pairs) out.push_back({source, target});
  else if (const auto* other = attributes_if<CollectiveAttributes>(collective.attributes))
    out = other->replica_groups.groups;
  return out;
}

/// The position of a device: its coordinate along the axes of the region, and its number among the devices with this
/// coordinate.
struct RegionPlace {
  std::int64_t within;
  std::int64_t number;
};

std::vector<RegionPlace> places_of(const Mesh& mesh, const std::vector<AxisRef>& axes) {
  std::vector<RegionPlace> out(static_cast<std::size_t>(mesh.device_count()));
  std::vector<std::int64_t> so_far(static_cast<std::size_t>(axes_size(axes)), 0);
  for (std::int64_t position = 0; position < mesh.device_count(); ++position) {
    const std::int64_t within = mesh.coordinate(position, axes);
    at(out, mesh.device_at(position)) = {within, at(so_far, within)++};
  }
  return out;
}

}  // namespace

void check_region_collective(const Instruction& collective) {
  const Sharding& region = collective.sharding->front();
  const auto places = places_of(region.mesh, region.manual);
  const std::int64_t copies = region.mesh.device_count() / axes_size(region.manual);
  const auto* groups = attributes_if<CollectiveAttributes>(collective.attributes);
  require(copies == 1 || groups == nullptr || !groups->replica_groups.groups.empty(),
          "{} %{} has one group of all devices, but some axes of {} are not manual in its region; the devices of a "
          "group may differ only along manual axes",
          collective.op->name, collective.name, region.mesh);
  // The groups, as coordinates along the region's axes.
  std::map<std::int64_t, std::set<Group>> groups_by_number;
  for (const Group& group : groups_or_pairs(collective)) {
    Group within;
    for (const auto device : group) {
      require(device >= 0 && device < isize(places), "{} %{} names device {}, but the program is for {} devices",
              collective.op->name, collective.name, device, places.size());
      require(at(places, device).number == at(places, group.front()).number,
              "{} %{} connects devices {} and {}, which differ along axes of {} that are not manual in its "
              "region; the devices of a group may differ only along manual axes",
              collective.op->name, collective.name, group.front(), device, region.mesh);
      within.push_back(at(places, device).within);
    }
    // The order of a group has no meaning for an all-reduce.
    if (collective.op->collective == CollectiveKind::kAllReduce) std::sort(within.begin(), within.end());
    groups_by_number[at(places, group.front()).number].insert(std::move(within));
  }
  if (groups_by_number.empty()) return;
  const bool is_one = isize(groups_by_number) == copies &&
                      std::all_of(groups_by_number.begin(), groups_by_number.end(), [&](const auto& at_place) {
                        return at_place.second == groups_by_number.begin()->second;
                      });
  require(is_one,
          "the groups of {} %{} differ along axes of {} that are not manual in its region; use the same groups for "
          "every coordinate of these axes",
          collective.op->name, collective.name, region.mesh);
}

}  // namespace tessera
