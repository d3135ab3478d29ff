// SPDX-License-Identifier: Apache-2.0
// A collective over several nodes that is processed in chunks: while one chunk is sent between nodes, the next one is
// reduced inside each node, and the previous one is shared inside it.
//
//   inside    reduce 0 | reduce 1 | share 0 reduce 2 | share 1 reduce 3 | …
//   between              0 ------- 1 -------------- 2 -------------- …
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "tessera/collectives/node_memory.h"
#include "tessera/collectives/process_group.h"

namespace tessera::collectives {

/// Scratch memory of a group, which all its collectives reuse. It is node memory if the rank has any, because peers can
/// read node memory in place.
class Scratch {
 public:
  explicit Scratch(std::shared_ptr<NodeMemory> memory) : memory_(std::move(memory)) {}
  ~Scratch() { release(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  /// Returns at least `bytes` bytes. The contents are lost if the memory has to grow.
  std::byte* grow(std::size_t bytes);

 private:
  void release();
  std::shared_ptr<NodeMemory> memory_;
  std::vector<std::byte> own_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Divides `bytes` bytes into chunks. All chunks except the last have the same size, a multiple of a cache line. 0
/// bytes are one empty chunk.
class Chunks {
 public:
  /// `piece`: the desired bytes of a chunk. There are at most kMost chunks. The size of a chunk is a multiple of `unit`
  /// bytes.
  Chunks(std::size_t bytes, std::size_t piece, std::size_t unit);
  [[nodiscard]] std::size_t count() const { return count_; }
  /// The size in bytes of every chunk except the last, which may be smaller.
  [[nodiscard]] std::size_t longest() const { return piece_; }
  [[nodiscard]] std::size_t begin(std::size_t k) const { return k * piece_; }
  [[nodiscard]] std::size_t size(std::size_t k) const;
  static constexpr std::size_t kMost = 8;  // more chunks save little time, and each requires all members to wait

 private:
  std::size_t bytes_;
  std::size_t piece_;
  std::size_t count_;
};

/// One collective over several nodes, processed in chunks.
class ChunkPipeline final : public PendingOperation {
 public:
  struct Stages {
    std::size_t chunks = 1;
    std::size_t scratch_bytes = 0;  // per chunk
    /// Does the work inside the node that precedes the exchange between nodes, and returns the operation of this
    /// exchange.
    std::function<std::unique_ptr<PendingOperation>(ChunkPipeline&, std::size_t chunk)> begin;
    /// Does the work inside the node that follows the exchange; null if there is none.
    std::function<void(ChunkPipeline&, std::size_t chunk)> end;
  };
  /// At most `in_flight` chunks are between nodes at a time. Each has its own part of `scratch`.
  ChunkPipeline(Stages stages, std::size_t in_flight, std::shared_ptr<Scratch> scratch);

  /// Starts as many chunks as may be in flight.
  void start();
  /// Members of a node must work inside the node in the same order, so this happens only here and never in test().
  void wait() override;
  bool test() override;
  /// Advances the operations in flight. Returns true if all of them have completed.
  bool poll();
  [[nodiscard]] std::byte* scratch(std::size_t chunk) const;

 private:
  Stages stages_;
  std::size_t slots_;
  std::shared_ptr<Scratch> scratch_;
  std::byte* data_;
  std::size_t begun_ = 0;
  std::size_t ended_ = 0;
  std::deque<std::unique_ptr<PendingOperation>> in_flight_;  // destroyed before the scratch memory
};

}  // namespace tessera::collectives
