// SPDX-License-Identifier: Apache-2.0
// The memory of a rank: aligned blocks that are kept for reuse between runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "executable/host_file.h"
#include "tessera/collectives/node_memory.h"
#include "tessera/runtime/executable/buffer.h"
#include "tessera/runtime/executable/pinned_content.h"

namespace tessera {

/// The purpose of a block, as quoted in the error if the allocation fails: `the arena of step`.
using Purpose = std::function<std::string()>;

/// The blocks of a rank. A returned block is kept as long as runs request its size, and freed after two runs in a row
/// that did not use it. Any thread may call this, because arrays may outlive the thread of their rank.
class MemoryPool {
 public:
  /// Blocks of at least a page are in the node memory of the calling rank, where its peers can read them.
  MemoryPool() : node_memory_(node_memory()) {}
  ~MemoryPool();
  /// Returns `bytes` aligned to 64, with undefined content. If the allocation fails, throws an Error with the purpose,
  /// the memory that the rank holds and the free memory of the machine.
  std::byte* take(std::int64_t bytes, const Purpose& purpose);
  void give_back(std::byte* block, std::int64_t bytes);
  /// Called after every run. Increases the age of idle blocks.
  void end_of_run();

  /// Frees all idle blocks, however old they are.
  void free_idle();

  [[nodiscard]] MemoryInfo info() const {
    const std::scoped_lock lock(mutex_);
    return {used_, peak_, pooled_};
  }
  /// The number of blocks handed out, and how many of these were newly allocated.
  struct Counts {
    std::int64_t taken = 0;
    std::int64_t allocated = 0;
  };
  [[nodiscard]] Counts counts() const {
    const std::scoped_lock lock(mutex_);
    return counts_;
  }

 private:
  std::byte* allocate(std::int64_t size);
  std::byte* find_idle(std::int64_t size);
  void release_idle();
  [[nodiscard]] std::string held() const;
  void release(std::byte* block, std::int64_t size);
  struct Idle {
    std::byte* block;
    int age;
  };
  std::shared_ptr<NodeMemory> node_memory_;
  mutable std::mutex mutex_;
  std::map<std::int64_t, std::vector<Idle>> idle_;  // by size
  std::int64_t used_ = 0;
  std::int64_t peak_ = 0;
  std::int64_t pooled_ = 0;
  Counts counts_;
};

/// A block that returns to its pool.
class DeviceMemory {
 public:
  DeviceMemory(std::shared_ptr<MemoryPool> pool, std::int64_t bytes, const Purpose& purpose)
      : pool_(std::move(pool)), bytes_(bytes), data_(pool_->take(bytes, purpose)) {}
  ~DeviceMemory() {
    if (pinned) pinned->preserve();
    pool_->give_back(data_, bytes_);
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

  std::shared_ptr<PinnedContent> pinned;  // null unless another thread reads the content

 private:
  std::shared_ptr<MemoryPool> pool_;
  std::int64_t bytes_;
  std::byte* data_;
};

/// The memory of a rank: its pool, and the arena and the file that its executables share (one runs at a time).
struct RankMemory {
  std::shared_ptr<MemoryPool> pool = std::make_shared<MemoryPool>();
  std::unique_ptr<DeviceMemory> arena;
  /// Returns the arena for `program`. Its size is the maximum of all requests so far.
  std::byte* arena_of(std::int64_t bytes, const std::string& program);
  std::unique_ptr<HostFile> file;
  /// Returns a file of at least `bytes`, or null for 0 bytes.
  HostFile* file_of(std::int64_t bytes);
};
RankMemory& rank_memory();

}  // namespace tessera
