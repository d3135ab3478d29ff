// SPDX-License-Identifier: Apache-2.0
// The ranks of one node as a rank sees them. Every rank owns a segment: a control page that says how it is, one slot per group
// with its counters and the post of its collective, and a staging area for payload. Peers map it.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "group_base.h"
#include "shared_memory/heap.h"
#include "waiting.h"

namespace tessera::collectives {

inline constexpr std::size_t kGroupSlots = 1024;
inline constexpr std::size_t kStagingHalf = std::size_t{1} << 20;  // both halves of a node's ranks fit a shared cache

enum class RankState : std::uint32_t { kRunning, kFinished, kFailed };

/// Of one rank in one group. Only the owner writes.
struct alignas(64) GroupSlot {
  std::atomic<std::uint64_t> arrived{0};  // steps this rank has arrived at
  std::atomic<std::uint64_t> done{0};     // steps after which it reads no peer's staging area any more
  std::array<std::atomic<std::uint64_t>, 2> signature{};
  // Two, because a fast rank may post its next collective while a slow one still compares this one.
  std::array<Post, 2> post{};
  // Where `in` and `out` of the collective lie in the rank's node memory; -1: elsewhere.
  std::array<std::array<std::int64_t, 2>, 2> offsets{};
};

/// The layout of a rank's segment.
struct RankPage {
  std::uint64_t nonce;
  std::atomic<RankState> state;
  std::atomic<std::uint32_t> waiting;  // 1 while `activity` says where the rank waits
  std::array<char, 200> activity;
  std::array<std::int32_t, 16> awaited;  // and for which ranks, as far as they fit; -1 ends the list
  std::array<char, 200> work;            // what it does while it does not wait; "": nothing that it has told
  std::atomic<std::uint64_t> failure;    // a hash of the message with which the rank fails; 0: it has none of its own
  alignas(64) std::atomic<std::uint64_t> progress;  // ProcessGroup::advance
  std::array<GroupSlot, kGroupSlots> slots;
  alignas(4096) std::array<std::array<std::byte, kStagingHalf>, 2> staging;
};

struct Peer {
  int world_rank = 0;
  std::int32_t process = 0;
  RankPage* page = nullptr;
};

class Node {
 public:
  /// This rank's own segment; `world_rank` of `world_size`.
  Node(int world_rank, int world_size);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  [[nodiscard]] SegmentAddress address() const { return own_.address(); }
  /// Of this rank's node memory; 0 bytes where it has none.
  [[nodiscard]] SegmentAddress heap_address() const { return heap_ ? heap_->address() : SegmentAddress{}; }
  /// Maps the segments of the other ranks of this node; false with the reason where one cannot be opened.
  bool open_peers(const std::vector<int>& world_ranks, const std::vector<SegmentAddress>& addresses,
                  std::string& reason);
  /// The same for their node memory.
  bool open_heaps(const std::vector<int>& world_ranks, const std::vector<SegmentAddress>& addresses,
                  std::string& reason);
  /// What the ranks read of each other in place; null where they cannot.
  [[nodiscard]] const std::shared_ptr<Heap>& heap() const { return heap_; }
  void forget_heap() { heap_ = nullptr; }
  /// Why the segment is no memfd; "" if it is.
  [[nodiscard]] const std::string& file_reason() const { return file_reason_; }
  /// Why no other rank can open the segment; "" if they can.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }
  /// After every rank has opened every segment.
  void close_descriptor() { own_.close_descriptor(); }
  /// Forgets peers: another rank could not open them.
  void forget_peers() { peers_.clear(); }

  [[nodiscard]] RankPage& own() const { return *page_; }
  [[nodiscard]] const std::vector<Peer>& peers() const { return peers_; }  // without this rank
  /// The page of a rank of this node.
  [[nodiscard]] RankPage& page_of(int world_rank) const;
  [[nodiscard]] int world_rank() const { return world_rank_; }
  [[nodiscard]] int world_size() const { return world_size_; }
  [[nodiscard]] int rank_count() const { return 1 + static_cast<int>(peers_.size()); }
  /// Whether the ranks of this machine have a core each: then it costs nobody anything to spin.
  [[nodiscard]] bool has_core_per_rank() const { return has_core_per_rank_; }
  void set_core_per_rank(bool has_core_per_rank) { has_core_per_rank_ = has_core_per_rank; }

  void set_state(RankState state) { page_->state.store(state, std::memory_order_release); }
  /// What a rank of the job does, as far as it is seen from this node.
  [[nodiscard]] RankActivity activity(int world_rank) const;
  /// Says in which collective this rank waits, and for whom, until it stops waiting.
  void begin_waiting(const std::string& text);
  void wait_for(const std::vector<int>& world_ranks);
  void stop_waiting() { page_->waiting.store(0, std::memory_order_release); }
  /// Says what this rank does between collectives.
  void works_on(std::string_view text);
  /// The host of each rank of the job.
  void set_hosts(std::vector<std::string> hosts) { hosts_ = std::move(hosts); }
  /// Sleeps up to `microseconds`; returns true, and early, when a peer process ends.
  [[nodiscard]] bool sleep(long microseconds) const;
  /// Throws if a peer has failed. `text` is what this rank waits in.
  void check_failed() const;
  /// Throws if a peer has died, which costs a system call for each.
  void check_dead(const std::string& text) const;

  // The staging area is shared by all groups of this rank: it may be written again once the members of the group that last
  // used it are done reading.
  struct StagingUse {
    const void* group = nullptr;
    std::vector<const GroupSlot*> readers;
    std::vector<int> world_ranks;
    std::uint64_t step = 0;
  };
  StagingUse last_use;
  std::size_t next_half = 0;

 private:
  int world_rank_;
  int world_size_;
  bool has_core_per_rank_ = false;
  std::vector<std::string> hosts_;
  std::string file_reason_;
  std::string refusal_;
  Segment own_;
  std::shared_ptr<Heap> heap_;
  RankPage* page_;
  std::vector<Peer> peers_;
  std::vector<Segment> segments_;
  std::vector<int> pidfds_;  // per peer, -1 where the kernel has none
};

}  // namespace tessera::collectives
