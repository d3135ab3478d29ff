// SPDX-License-Identifier: Apache-2.0
// Memory of a rank: aligned blocks, kept for reuse between runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tessera/collectives/node_memory.h"
#include "tessera/runtime/executable/buffer.h"

namespace tessera {

/// What a block is for, in the words of the error that says that there is none: `the arena of step`.
using Purpose = std::function<std::string()>;

/// Blocks of a rank. A block given back is kept while runs go on asking for its size; one that two runs in a row had no use for is
/// freed. May be called from any thread: a rank's arrays may outlive its thread.
class MemoryPool {
 public:
  /// Blocks of a page and more lie in the node memory of the calling rank, where its peers can read them.
  MemoryPool() : node_memory_(node_memory()) {}
  ~MemoryPool();
  /// `bytes` at a multiple of 64, undefined content. Error with the purpose, what the rank holds and what the machine has free where there
  /// is no such block.
  std::byte* take(std::int64_t bytes, const Purpose& purpose);
  void give_back(std::byte* block, std::int64_t bytes);
  /// Called after every run: ages what lies unused.
  void end_of_run();

  [[nodiscard]] MemoryInfo info() const {
    const std::scoped_lock lock(mutex_);
    return {used_, peak_, pooled_};
  }
  /// Blocks so far: handed out, and of these asked of the system.
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

/// One block; returns to its pool.
class DeviceMemory {
 public:
  DeviceMemory(std::shared_ptr<MemoryPool> pool, std::int64_t bytes, const Purpose& purpose)
      : pool_(std::move(pool)), bytes_(bytes), data_(pool_->take(bytes, purpose)) {}
  ~DeviceMemory() { pool_->give_back(data_, bytes_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<MemoryPool> pool_;
  std::int64_t bytes_;
  std::byte* data_;
};

/// What a rank holds: its pool, and the arena that its executables share (one runs at a time).
struct RankMemory {
  std::shared_ptr<MemoryPool> pool = std::make_shared<MemoryPool>();
  std::unique_ptr<DeviceMemory> arena;
  /// At least `bytes`, exactly the largest plan asked for so far. `program` asks for it.
  std::byte* arena_of(std::int64_t bytes, const std::string& program);
};
RankMemory& rank_memory();

}  // namespace tessera
