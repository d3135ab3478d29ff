// SPDX-License-Identifier: Apache-2.0
// Regions of arrays: the elements that a shard holds, and their positions in a file.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tessera/sharding/placement.h"

namespace tessera {

/// The elements of an array whose index is in an interval of each dim.
struct Region {
  std::vector<Interval> dims;
  [[nodiscard]] std::int64_t element_count() const;
  friend bool operator==(const Region&, const Region&) = default;
};

/// All elements of an array.
Region complete_region(const Type& type);
/// The elements of the array that `device` holds under the sharding, without padding.
Region region_of(const Type& type, const Sharding& sharding, std::int64_t device);
/// The elements that `device` writes to files. Devices with equal shards divide the elements, so that each element is
/// written once. Nullopt if the device writes none.
std::optional<Region> written_region(const Type& type, const Sharding& sharding, std::int64_t device);
/// The same for all devices, by device. Takes little more time than for one device.
std::vector<std::optional<Region>> written_regions(const Type& type, const Sharding& sharding);

/// The elements that two regions of one array have in common.
Region intersection(const Region& a, const Region& b);

/// A row-major buffer of `sizes` elements. Its first element has the index `origin` in the array.
struct RegionBuffer {
  Dims sizes;
  Dims origin;
  /// The buffer of a complete array.
  static RegionBuffer complete(const Type& type);
  /// The buffer of the shard that holds `region`.
  static RegionBuffer shard(const Type& type, const Sharding& sharding, const Region& region);
};

/// The buffer that holds exactly the region.
RegionBuffer buffer_of(const Region& region);

/// The runs of elements of `region` that are contiguous in a buffer: their number, their length, and the number of
/// elements of the buffer from the start of the first run to the end of the last one. The region is not empty.
struct Runs {
  std::int64_t count = 0;
  std::int64_t length = 0;
  std::int64_t extent = 0;
};
/// Returns the runs of a region in a buffer that holds it.
Runs runs_of(const Region& region, const RegionBuffer& buffer);

/// Calls `run(from, to, count)`, in elements, for each run of elements of `region` that is contiguous in both buffers,
/// in row-major order. Runs are as long as possible.
void for_each_run(const Region& region, const RegionBuffer& from, const RegionBuffer& to,
                  const std::function<void(std::int64_t from, std::int64_t to, std::int64_t count)>& run);

}  // namespace tessera
