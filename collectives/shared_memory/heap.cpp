// SPDX-License-Identifier: Apache-2.0
#include "shared_memory/heap.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "tessera/base/error.h"

namespace tessera::collectives {
namespace {

constexpr auto kPage = static_cast<std::size_t>(NodeMemory::kPage);

std::size_t rounded_up_to_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

using FreeRange = boost::icl::interval_set<std::size_t>::interval_type;
FreeRange range_of(std::size_t offset, std::size_t bytes) { return FreeRange::right_open(offset, offset + bytes); }

// A reserved range of addresses, in which only the fixed mappings are accessible.
struct Range {
  void* data = nullptr;
  std::size_t bytes = 0;
  explicit Range(std::size_t size)
      : data(mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)), bytes(size) {}
  ~Range() {
    if (data != MAP_FAILED) munmap(data, bytes);
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace

void SegmentTable::add(int world_rank, Segment segment) {
  const std::scoped_lock lock(mutex_);
  segments_.insert_or_assign(world_rank, std::move(segment));
}

const Segment* SegmentTable::find(int world_rank) const {
  const std::scoped_lock lock(mutex_);
  const auto found = segments_.find(world_rank);
  return found == segments_.end() ? nullptr : &found->second;
}

std::shared_ptr<Heap> Heap::create(int world_rank, std::size_t bytes, std::shared_ptr<SegmentTable> table) {
  std::string reason;
  Segment segment =
      Segment::try_create(rounded_up_to_pages(bytes), fmt::format("tessera memory {}", world_rank), reason);
  if (!segment.is_open()) return nullptr;
  table->add(world_rank, std::move(segment));
  return std::shared_ptr<Heap>(new Heap(world_rank, rounded_up_to_pages(bytes), std::move(table)));
}

// The first page holds the nonce of the segment.
Heap::Heap(int world_rank, std::size_t bytes, std::shared_ptr<SegmentTable> table)
    : table_(std::move(table)), own_(table_->find(world_rank)), free_(range_of(kPage, bytes - kPage)) {}

std::byte* Heap::take(std::size_t bytes) {
  const std::size_t size = rounded_up_to_pages(bytes);
  const std::scoped_lock lock(mutex_);
  const auto range =
      std::find_if(free_.begin(), free_.end(), [&](const FreeRange& r) { return r.upper() - r.lower() >= size; });
  if (range == free_.end()) return nullptr;
  const std::size_t offset = range->lower();
  free_ -= range_of(offset, size);
  return own_->data() + offset;
}

void Heap::give_back(std::byte* block, std::size_t bytes) {
  const std::size_t size = rounded_up_to_pages(bytes);
  madvise(block, size, MADV_REMOVE);
  const std::scoped_lock lock(mutex_);
  free_ += range_of(static_cast<std::size_t>(block - own_->data()), size);
}

std::int64_t Heap::offset_of(const std::byte* data) const {
  const std::byte* begin = own_->data();
  return data >= begin && data < begin + own_->bytes() ? data - begin : -1;
}

std::shared_ptr<std::byte> Heap::side_by_side(std::span<const NodePlace> places, std::size_t bytes, Use use) const {
  const auto range = std::make_shared<Range>(places.size() * bytes);
  if (range->data == MAP_FAILED) return nullptr;
  auto* next = static_cast<std::byte*>(range->data);
  for (const NodePlace& place : places) {
    const Segment* segment = table_->find(place.world_rank);
    ensure(segment != nullptr && place.offset % NodeMemory::kPage == 0 && bytes % kPage == 0,
           "memory of rank {} at {} cannot be mapped", place.world_rank, place.offset);
    if (!segment->map_at(next, place.offset, bytes, use == Use::kWrite)) return nullptr;
    next += bytes;
  }
  return {range, static_cast<std::byte*>(range->data)};
}

std::size_t machine_memory_bytes() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace tessera::collectives
