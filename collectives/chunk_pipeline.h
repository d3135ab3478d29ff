// SPDX-License-Identifier: Apache-2.0
// A collective over several nodes in chunks: while one is between the nodes, the next is reduced inside the node and the one before is
// shared inside it.
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

/// Memory that lasts from call to call: node memory where there is some, since what lies there is read by peers in place.
class Scratch {
 public:
  explicit Scratch(std::shared_ptr<NodeMemory> memory) : memory_(std::move(memory)) {}
  ~Scratch() { release(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  /// At least `bytes`; what was there is gone where it has to grow.
  std::byte* grow(std::size_t bytes);

 private:
  void release();
  std::shared_ptr<NodeMemory> memory_;
  std::vector<std::byte> own_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Pieces of a length: equally long, whole cache lines, but for the last. One piece of no bytes for none.
class Chunks {
 public:
  /// Pieces of about `piece` bytes, at most kMost of them, each a multiple of `unit`.
  Chunks(std::size_t bytes, std::size_t piece, std::size_t unit);
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::size_t longest() const { return piece_; }
  [[nodiscard]] std::size_t begin(std::size_t k) const { return k * piece_; }
  [[nodiscard]] std::size_t size(std::size_t k) const;
  static constexpr std::size_t kMost = 8;  // more hide little, and each costs a round of meetings

 private:
  std::size_t bytes_;
  std::size_t piece_;
  std::size_t count_;
};

class ChunkPipeline final : public PendingOperation {
 public:
  struct Stages {
    std::size_t chunks = 1;
    std::size_t scratch_bytes = 0;  // of a chunk
    /// What is done inside the node before; returns what goes on between the nodes.
    std::function<std::unique_ptr<PendingOperation>(ChunkPipeline&, std::size_t chunk)> begin;
    /// What is left to do inside; none: nothing.
    std::function<void(ChunkPipeline&, std::size_t chunk)> end;
  };
  /// At most `in_flight` chunks between the nodes at once; each has its scratch, which `scratch` keeps.
  ChunkPipeline(Stages stages, std::size_t in_flight, std::shared_ptr<Scratch> scratch);

  /// Begins as many chunks as may be in flight.
  void start();
  /// Members of a node must do what is left inside in the same order as everything else: only here, never in test().
  void wait() override;
  bool test() override;
  /// Lets what is in flight go on. True when all of it has arrived.
  bool poll();
  [[nodiscard]] std::byte* scratch(std::size_t chunk) const;

 private:
  Stages stages_;
  std::size_t slots_;
  std::shared_ptr<Scratch> scratch_;
  std::byte* data_;
  std::size_t begun_ = 0;
  std::size_t ended_ = 0;
  std::deque<std::unique_ptr<PendingOperation>> in_flight_;  // goes before the scratch
};

}  // namespace tessera::collectives
