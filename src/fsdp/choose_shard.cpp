// SPDX-License-Identifier: Apache-2.0
#include "choose_shard.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/sharding/placement.h"

namespace tessera::fsdp {
namespace {

// The minor factor of `size` devices of an axis.
AxisRef minor_factor(const AxisRef& axis, std::int64_t size) {
  return {axis.axis, axis.pre * (axis.size / size), size};
}

// The minor factor of the axis, of size `group`, comes first: the tiles of devices that differ only in the other factor are
// adjacent in the array.
std::vector<AxisRef> with_adjacent_group(const std::vector<AxisRef>& axes, std::int64_t group) {
  if (group <= 1 || axes.size() != 1 || group >= axes.front().size) return axes;
  const AxisRef& axis = axes.front();
  return {minor_factor(axis, group), {axis.axis, axis.pre, axis.size / group}};
}

Sharding sharded_along(const Sharding& gathered, int dim, const std::vector<AxisRef>& axes) {
  Sharding out = gathered;
  auto& present = at(out.dims, dim).axes;
  present.insert(present.end(), axes.begin(), axes.end());
  return out;
}

}  // namespace

std::int64_t padded_elements(const Type& type, const Sharding& storage) {
  std::int64_t tiles = 1;
  for (int d = 0; d < type.ndim(); ++d) tiles *= storage.tiles(d);
  return shard_type(type, storage).element_count() * tiles - type.element_count();
}

std::optional<Sharding> choose_shard(const Type& type, const Sharding& gathered, const std::vector<AxisRef>& axes,
                                     const ShardChoice& choice) {
  const std::int64_t parts = axes_size(axes);
  if (parts == 1 || type.ndim() <= choice.first_dim) return std::nullopt;
  using Cost = std::tuple<std::int64_t, std::int64_t>;  // elements of one device, padding
  std::optional<std::pair<Cost, Sharding>> best;
  const auto offer = [&](int dim, const std::vector<AxisRef>& with) {
    Sharding sharding = sharded_along(gathered, dim, with);
    const Cost cost{shard_type(type, sharding).element_count(), padded_elements(type, sharding)};
    if (!best || cost < best->first) best.emplace(cost, std::move(sharding));
  };
  for (int d = choice.first_dim; d < type.ndim(); ++d) {
    if (choice.dim && *choice.dim != d) continue;
    const std::int64_t tiles = gathered.tiles(d);
    offer(d, with_adjacent_group(axes, choice.group));
    const bool fits = type.dim(d) % tiles == 0 && axes.size() == 1 && !choice.dim && choice.group <= 1;
    const std::int64_t even = fits ? std::gcd(type.dim(d) / tiles, parts) : 1;
    if (even > 1 && even < parts) offer(d, {minor_factor(axes.front(), even)});
  }
  return best ? std::optional(std::move(best->second)) : std::nullopt;
}

}  // namespace tessera::fsdp
