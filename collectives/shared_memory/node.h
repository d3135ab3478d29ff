// SPDX-License-Identifier: Apache-2.0
// A rank's view of the ranks of its node. Every rank owns a segment: a control page with its state, one slot per group
// with its counters and the post of its collective, and a staging area for payload. Peers map the segment.
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
// Both halves of all ranks of a node fit into a shared cache.
inline constexpr std::size_t kStagingHalf = std::size_t{1} << 20;

enum class RankState : std::uint32_t { kRunning, kFinished, kFailed };

/// The state of one rank in one group. Only the owner writes it.
struct alignas(64) GroupSlot {
  std::atomic<std::uint64_t> arrived{0};  // the number of steps at which this rank has arrived
  std::atomic<std::uint64_t> done{0};     // the number of steps after which it reads no peer's staging area any more
  std::array<std::atomic<std::uint64_t>, 2> signature{};
  // Two posts, because a fast rank may post its next collective while a slow one still compares this one.
  std::array<Post, 2> post{};
  // The offsets of `in` and `out` of the collective in the rank's node memory; -1 if they are not in it.
  std::array<std::array<std::int64_t, 2>, 2> offsets{};
};

/// The layout of a rank's segment.
struct RankPage {
  std::uint64_t nonce;
  std::atomic<RankState> state;
  std::atomic<std::uint32_t> waiting;  // 1 while `activity` describes where the rank waits
  std::array<char, 200> activity;
  std::array<std::int32_t, 16> awaited;  // the ranks for which it waits, as many as fit; -1 ends the list
  std::array<char, 200> work;            // its activity while it does not wait; "" if unknown
  std::atomic<std::uint64_t> failure;    // failure_hash() of the message with which the rank fails; 0 if it has none
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
  /// Creates the segment of this rank, which is `world_rank` of `world_size`.
  Node(int world_rank, int world_size);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  [[nodiscard]] SegmentAddress address() const { return own_.address(); }
  /// The address of this rank's node memory; 0 bytes if it has none.
  [[nodiscard]] SegmentAddress heap_address() const { return heap_ ? heap_->address() : SegmentAddress{}; }
  /// Maps the segments of the other ranks of this node; returns false and sets `reason` if one cannot be opened.
  bool open_peers(const std::vector<int>& world_ranks, const std::vector<SegmentAddress>& addresses,
                  std::string& reason);
  /// The same for their node memory.
  bool open_heaps(const std::vector<int>& world_ranks, const std::vector<SegmentAddress>& addresses,
                  std::string& reason);
  /// The memory that ranks of the node read in place; null if they cannot.
  [[nodiscard]] const std::shared_ptr<Heap>& heap() const { return heap_; }
  void forget_heap() { heap_ = nullptr; }
  /// The reason why the segment is not a memfd; "" if it is one.
  [[nodiscard]] const std::string& file_reason() const { return file_reason_; }
  /// The reason why other ranks cannot open the segment; "" if they can.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }
  /// Closes the file descriptor of the segment. Call this after every rank has opened every segment.
  void close_descriptor() { own_.close_descriptor(); }
  /// Removes all peers, because another rank could not open their segments.
  void forget_peers() { peers_.clear(); }

  [[nodiscard]] RankPage& own() const { return *page_; }
  [[nodiscard]] const std::vector<Peer>& peers() const { return peers_; }  // without this rank
  /// The page of a rank of this node.
  [[nodiscard]] RankPage& page_of(int world_rank) const;
  [[nodiscard]] int world_rank() const { return world_rank_; }
  [[nodiscard]] int world_size() const { return world_size_; }
  [[nodiscard]] int rank_count() const { return 1 + static_cast<int>(peers_.size()); }
  /// Whether each rank of this machine has a core, so that spinning takes no time from others.
  [[nodiscard]] bool has_core_per_rank() const { return has_core_per_rank_; }
  void set_core_per_rank(bool has_core_per_rank) { has_core_per_rank_ = has_core_per_rank; }

  void set_state(RankState state) { page_->state.store(state, std::memory_order_release); }
  /// The activity of a rank of the job, if it is visible from this node.
  [[nodiscard]] RankActivity activity(int world_rank) const;
  /// Publishes the ranks for which this rank waits, and the collective in which it begins to wait.
  void wait_for(const std::vector<int>& world_ranks);
  void begin_waiting(const std::string& text);
  void stop_waiting() { page_->waiting.store(0, std::memory_order_release); }
  /// Publishes the activity of this rank between collectives; with a text, the rank does not count as waiting.
  void works_on(std::string_view text);
  /// The host of each rank of the job.
  void set_hosts(std::vector<std::string> hosts) { hosts_ = std::move(hosts); }
  /// Sleeps for up to `microseconds`. Returns true early if a peer process ends.
  [[nodiscard]] bool sleep(long microseconds) const;
  /// Throws an Error if a peer has failed. `text`: the collective in which this rank waits.
  void check_failed() const;
  /// Throws an Error if a peer has died. This takes one system call per peer.
  void check_dead(const std::string& text) const;

  // All groups of this rank share the staging area. It may be overwritten only when all members of the group that used
  // it last have finished reading.
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
  std::vector<int> pidfds_;  // per peer; -1 if the kernel does not support them
};

}  // namespace tessera::collectives
