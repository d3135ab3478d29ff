// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process. The cluster sees the state of every rank, so it immediately detects collectives that
// can never complete: a member has returned, or all ranks wait.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <tuple>

#include "group_base.h"
#include "shared_memory/heap.h"
#include "waiting.h"

namespace tessera::collectives {

class Cluster;

/// The shared state of the members of a group. They meet here: each waits until all have arrived.
struct Meeting {
  struct Member {
    const std::byte* in = nullptr;
    std::byte* out = nullptr;
    Post post;
    bool present = false;
  };
  std::vector<int> world_ranks;
  std::vector<Member> posts;  // per member; written under the cluster's lock, read between two meetings
  int arrived = 0;            // guarded by the lock
  std::string broken;         // guarded by the lock; once set, every meeting throws it
  std::atomic<std::uint64_t> generation{0};
  std::condition_variable changed;
};

class Cluster {
 public:
  /// Wraps the groups between nodes.
  using Wrap = std::function<std::shared_ptr<ProcessGroup>(std::shared_ptr<ProcessGroup>)>;
  Cluster(int size, std::function<int(int)> node_of, Wrap between_nodes = nullptr);

  /// The meeting of the members; the same object for all calls with the same key.
  std::shared_ptr<Meeting> meeting(std::int64_t id, const std::string& flavour, const std::vector<int>& world_ranks);

  /// Posts `call` and waits for all members; the last one to arrive compares the posts. Throws an Error if they differ
  /// or the meeting is broken.
  void meet(Meeting& meeting, int member, const Collective& call);
  /// Waits for members that are all in the same collective. Never throws, because peers use this rank's buffers until
  /// all have arrived.
  void meet_again(Meeting& meeting, int member);

  /// These functions implement ProcessGroup::advance and await_progress.
  void advance(int rank, std::uint64_t progress);
  void await_progress(const std::vector<int>& world_ranks, int rank, std::uint64_t progress, const std::string& group);
  /// Implements ProcessGroup::works_on.
  void works_on(int rank, std::string_view text);
  /// The segments of all ranks' node memory.
  [[nodiscard]] const std::shared_ptr<SegmentTable>& segments() const { return segments_; }

  /// Called when the function of the rank has returned. Peers that wait for this rank then fail.
  void finish(int rank);
  /// Called when the rank's function has thrown; all ranks stop.
  void poison(int rank);
  /// Whether `rank` stopped only because another one failed.
  [[nodiscard]] bool was_stopped(int rank) const;

  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] const Wrap& between_nodes() const { return between_nodes_; }
  [[nodiscard]] int node_of(int rank) const { return node_of_ ? node_of_(rank) : 0; }

 private:
  enum class State { kRunning, kWaiting, kFinished };
  struct Rank {
    State state = State::kRunning;
    Meeting* meeting = nullptr;
    std::string text;
    bool stopped = false;
    std::atomic<std::uint64_t> progress{0};
    std::atomic<int> progress_waiters{0};  // ranks that sleep until this one advances
    std::mutex progress_mutex;
    std::condition_variable progressed;
    mutable std::mutex work_mutex;
    std::string work;  // its activity between collectives
  };
  using Lock = std::unique_lock<std::mutex>;

  void throw_if_stopped(const Meeting& meeting, int rank);
  void complete(Meeting& meeting);
  void compare(Meeting& meeting) const;
  bool arrive(Lock& lock, Meeting& meeting, int rank);
  void wait(Lock& lock, Meeting& meeting, int rank, std::uint64_t generation, bool may_stop);
  void check_progress();
  void break_meeting(Meeting& meeting, const std::string& reason);
  [[nodiscard]] std::string absence(const Meeting& meeting) const;
  [[nodiscard]] std::vector<int> absent(const Meeting& meeting) const;
  [[nodiscard]] std::string cause(int rank, const std::vector<int>& awaited) const;
  [[nodiscard]] RankActivity activity(int rank) const;
  void sleep_until_progress(int other, int rank, std::uint64_t progress, const std::string& group);
  void check_progress_of(int other, int rank, std::uint64_t progress, const std::string& group, WaitingTime waited);

  mutable std::mutex mutex_;
  std::function<int(int)> node_of_;
  Wrap between_nodes_;
  std::vector<Rank> ranks_;
  std::shared_ptr<SegmentTable> segments_ = std::make_shared<SegmentTable>();
  int running_;
  int failed_rank_ = -1;
  WaitingTime watchdog_interval_;
  WaitingTime timeout_;
  std::map<std::tuple<std::int64_t, std::string, std::vector<int>>, std::shared_ptr<Meeting>> meetings_;
};

}  // namespace tessera::collectives
