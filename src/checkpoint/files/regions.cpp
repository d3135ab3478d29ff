// SPDX-License-Identifier: Apache-2.0
#include "tessera/checkpoint/regions.h"

#include "tessera/base/text.h"

namespace tessera {
namespace {

bool is_empty(const Region& region) { return region.element_count() == 0; }

std::int64_t offset_of(const RegionBuffer& buffer, const Dims& strides, const Dims& index) {
  std::int64_t offset = 0;
  for (int d = 0; d < isize(index); ++d) offset += (at(index, d) - at(buffer.origin, d)) * at(strides, d);
  return offset;
}

// The first dim from which on a region is contiguous in the buffer: it covers all later dims.
int first_contiguous_dim(const Region& region, const RegionBuffer& buffer) {
  int d = isize(region.dims) - 1;
  while (d > 0 && at(region.dims, d).size() == at(buffer.sizes, d)) --d;
  return std::max(d, 0);
}

}  // namespace

std::int64_t Region::element_count() const {
  std::int64_t count = 1;
  for (const Interval& dim : dims) count *= dim.size();
  return count;
}

Region complete_region(const Type& type) {
  Region out;
  for (const auto size : type.dims()) out.dims.push_back({0, size});
  return out;
}

Region region_of(const Type& type, const Sharding& sharding, std::int64_t device) {
  const Placement placement = placement_of(type, sharding);
  Region out;
  for (int d = 0; d < type.ndim(); ++d) out.dims.push_back(placement.interval(device, d));
  return out;
}

std::optional<Region> written_region(const Type& type, const Sharding& sharding, std::int64_t device) {
  const Region own = region_of(type, sharding, device);
  if (is_empty(own)) return std::nullopt;
  std::int64_t holders = 0;
  std::int64_t before = 0;  // holders of the same elements with a lower number
  for (std::int64_t other = 0; other < sharding.mesh.device_count(); ++other) {
    if (region_of(type, sharding, other) != own) continue;
    ++holders;
    if (other < device) ++before;
  }
  Region out = own;
  for (Interval& dim : out.dims) {
    if (dim.size() < holders) continue;
    const std::int64_t each = ceil_div(dim.size(), holders);
    const std::int64_t start = std::min(dim.start + before * each, dim.limit);
    dim = {start, std::min(start + each, dim.limit)};
    return is_empty(out) ? std::nullopt : std::optional(out);
  }
  return before > 0 ? std::nullopt : std::optional(out);  // too small to be divided
}

RegionBuffer RegionBuffer::complete(const Type& type) { return {type.dims(), Dims(type.dims().size(), 0)}; }

RegionBuffer RegionBuffer::shard(const Type& type, const Sharding& sharding, const Region& region) {
  RegionBuffer out{shard_type(type, sharding).dims(), {}};
  for (const Interval& dim : region.dims) out.origin.push_back(dim.start);
  return out;
}

RegionBuffer buffer_of(const Region& region) {
  RegionBuffer out;
  for (const Interval& dim : region.dims) {
    out.sizes.push_back(dim.size());
    out.origin.push_back(dim.start);
  }
  return out;
}

void for_each_run(const Region& region, const RegionBuffer& from, const RegionBuffer& to,
                  const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& run) {
  if (is_empty(region)) return;
  const Dims from_strides = row_major_strides(from.sizes);
  const Dims to_strides = row_major_strides(to.sizes);
  const int inner = std::max(first_contiguous_dim(region, from), first_contiguous_dim(region, to));
  std::int64_t count = 1;
  for (int d = inner; d < isize(region.dims); ++d) count *= at(region.dims, d).size();
  Dims index;
  for (const Interval& dim : region.dims) index.push_back(dim.start);
  while (true) {
    run(offset_of(from, from_strides, index), offset_of(to, to_strides, index), count);
    int d = inner - 1;
    for (; d >= 0; --d) {
      if (++at(index, d) < at(region.dims, d).limit) break;
      at(index, d) = at(region.dims, d).start;
    }
    if (d < 0) return;
  }
}

}  // namespace tessera
