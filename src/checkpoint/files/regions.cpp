// SPDX-License-Identifier: Apache-2.0
#include "tessera/checkpoint/regions.h"

#include <map>
#include <utility>

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

namespace {

// The part number `number` of a region that `holders` devices divide. Nullopt if it is empty.
std::optional<Region> part_of_holder(const Region& own, std::int64_t number, std::int64_t holders) {
  Region out = own;
  for (Interval& dim : out.dims) {
    if (dim.size() < holders) continue;
    const std::int64_t each = ceil_div(dim.size(), holders);
    const std::int64_t start = std::min(dim.start + number * each, dim.limit);
    dim = {start, std::min(start + each, dim.limit)};
    return is_empty(out) ? std::nullopt : std::optional(out);
  }
  return number > 0 ? std::nullopt : std::optional(out);  // too small to be divided
}

Region region_in(const Placement& placement, std::int64_t device) {
  Region out;
  for (int d = 0; d < isize(placement.dims); ++d) out.dims.push_back(placement.interval(device, d));
  return out;
}

}  // namespace

Region region_of(const Type& type, const Sharding& sharding, std::int64_t device) {
  return region_in(placement_of(type, sharding), device);
}

std::optional<Region> written_region(const Type& type, const Sharding& sharding, std::int64_t device) {
  const Placement placement = placement_of(type, sharding);
  const Region own = region_in(placement, device);
  if (is_empty(own)) return std::nullopt;
  std::int64_t holders = 0;
  std::int64_t before = 0;  // holders of the same elements with a lower number
  for (std::int64_t other = 0; other < sharding.mesh.device_count(); ++other) {
    if (region_in(placement, other) != own) continue;
    ++holders;
    if (other < device) ++before;
  }
  return part_of_holder(own, before, holders);
}

std::vector<std::optional<Region>> written_regions(const Type& type, const Sharding& sharding) {
  const Placement placement = placement_of(type, sharding);
  const std::int64_t devices = sharding.mesh.device_count();
  using Starts = std::vector<std::int64_t>;  // tiles that are not empty differ in their first element
  std::map<Starts, std::int64_t> holders;
  std::vector<std::pair<Region, Starts>> own;
  for (std::int64_t device = 0; device < devices; ++device) {
    auto& [region, starts] = own.emplace_back(region_in(placement, device), Starts());
    for (const Interval& dim : region.dims) starts.push_back(dim.start);
    if (!is_empty(region)) ++holders[starts];
  }
  std::map<Starts, std::int64_t> before;
  std::vector<std::optional<Region>> out;
  for (const auto& [region, starts] : own)
    out.push_back(is_empty(region) ? std::nullopt : part_of_holder(region, before[starts]++, holders[starts]));
  return out;
}

Region intersection(const Region& a, const Region& b) {
  Region out;
  for (int d = 0; d < isize(a.dims); ++d) {
    const std::int64_t start = std::max(at(a.dims, d).start, at(b.dims, d).start);
    out.dims.push_back({start, std::max(start, std::min(at(a.dims, d).limit, at(b.dims, d).limit))});
  }
  return out;
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

Runs runs_of(const Region& region, const RegionBuffer& buffer) {
  const Dims strides = row_major_strides(buffer.sizes);
  Runs out{1, 1, 1};
  const int inner = first_contiguous_dim(region, buffer);
  for (int d = 0; d < isize(region.dims); ++d) {
    const std::int64_t size = at(region.dims, d).size();
    (d < inner ? out.count : out.length) *= size;
    out.extent += (size - 1) * at(strides, d);
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
