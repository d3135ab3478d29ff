// SPDX-License-Identifier: Apache-2.0
#include "executable/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "tessera/base/error.h"
#include "tessera/base/memory.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {
constexpr std::int64_t kAlignment = 64;
constexpr std::int64_t kHugePage = std::int64_t{2} << 20;
std::int64_t rounded(std::int64_t bytes) { return std::max<std::int64_t>(1, ceil_div(bytes, kAlignment)) * kAlignment; }

// Large blocks are aligned to huge pages, if the kernel has them, because products and copies then have far fewer TLB
// misses.
std::byte* private_block(std::int64_t bytes) {
  const bool is_large = bytes >= kHugePage;
  void* block = nullptr;
  if (posix_memalign(&block, static_cast<std::size_t>(is_large ? kHugePage : kAlignment),
                     static_cast<std::size_t>(bytes)) != 0)
    return nullptr;
  if (is_large) (void)madvise(block, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);  // the kernel may refuse
  return static_cast<std::byte*>(block);
}
}  // namespace

MemoryPool::~MemoryPool() { release_idle(); }

std::byte* MemoryPool::take(std::int64_t bytes, const Purpose& purpose) {
  const std::int64_t size = rounded(bytes);
  const std::scoped_lock lock(mutex_);
  std::byte* block = find_idle(size);
  if (block == nullptr) {
    ++counts_.allocated;
    block = allocate(size);
  }
  if (block == nullptr) {
    release_idle();
    block = allocate(size);
  }
  if (block == nullptr) fail_to_allocate(bytes, purpose(), held());
  used_ += size;
  peak_ = std::max(peak_, used_);
  ++counts_.taken;
  return block;
}

// Returns an idle block of this size, or null.
std::byte* MemoryPool::find_idle(std::int64_t size) {
  const auto found = idle_.find(size);
  if (found == idle_.end() || found->second.empty()) return nullptr;
  std::byte* block = found->second.back().block;
  found->second.pop_back();
  pooled_ -= size;
  return block;
}

void MemoryPool::release_idle() {
  for (auto& [size, blocks] : idle_)
    for (const Idle& idle : blocks) {
      release(idle.block, size);
      pooled_ -= size;
    }
  idle_.clear();
}

void MemoryPool::free_idle() {
  const std::scoped_lock lock(mutex_);
  release_idle();
}

std::string MemoryPool::held() const {
  return fmt::format("this rank has {} in arrays and its arena", format_bytes(static_cast<double>(used_)));
}

std::byte* MemoryPool::allocate(std::int64_t size) {
  if (node_memory_ != nullptr && size >= NodeMemory::kPage)
    if (std::byte* block = node_memory_->take(static_cast<std::size_t>(size))) return block;
  return private_block(size);
}

void MemoryPool::release(std::byte* block, std::int64_t size) {
  if (node_memory_ != nullptr && node_memory_->offset_of(block) >= 0)
    node_memory_->give_back(block, static_cast<std::size_t>(size));
  else
    std::free(block);
}

void MemoryPool::give_back(std::byte* block, std::int64_t bytes) {
  const std::int64_t size = rounded(bytes);
  const std::scoped_lock lock(mutex_);
  used_ -= size;
  pooled_ += size;
  idle_[size].push_back({block, 0});
}

void MemoryPool::end_of_run() {
  const std::scoped_lock lock(mutex_);
  for (auto& [size, blocks] : idle_) {
    std::erase_if(blocks, [&, bytes = size](Idle& idle) {
      if (++idle.age <= 2) return false;
      release(idle.block, bytes);
      pooled_ -= bytes;
      return true;
    });
  }
}

std::byte* RankMemory::arena_of(std::int64_t bytes, const std::string& program) {
  if (!arena || arena->bytes() < bytes) {
    arena.reset();
    pool->free_idle();  // so that the old arena and the new one never exist together
    arena =
        std::make_unique<DeviceMemory>(pool, bytes, [&] { return fmt::format("the arena of program {}", program); });
  }
  return arena->data();
}

HostFile* RankMemory::file_of(std::int64_t bytes) {
  if (bytes == 0) return nullptr;
  if (!file || file->bytes() < bytes) {
    file.reset();
    file = std::make_unique<HostFile>(bytes);
  }
  return file.get();
}

RankMemory& rank_memory() { return RankContext::current().get<RankMemory>(); }

}  // namespace tessera
