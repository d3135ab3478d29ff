// SPDX-License-Identifier: Apache-2.0
// MPI lets messages go on only while somebody calls it, and the stages of an operation are ours. Whoever waits for one operation of a rank sees
// to all of them; where the rank has a core to spare a thread does while the rank computes (TESSERA_PROGRESS). One thread at a time is
// inside MPI, as MPI_THREAD_SERIALIZED asks: it holds the claim.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "tessera/base/rank_context.h"

namespace tessera::collectives {

class MpiOperation;

class Progress {
 public:
  using Claim = std::unique_lock<std::mutex>;

  Progress() = default;
  ~Progress() { stop(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Starts the thread, in the rank's context. It sleeps while nothing is under way.
  void start_thread(RankContext& context);
  /// Ends the thread; before MPI does.
  void stop();
  /// The thread calls MPI no more soon after; for a job that is about to be ended, from any thread.
  void retire() { retires_.store(true, std::memory_order_release); }
  [[nodiscard]] bool has_thread() const { return thread_.joinable(); }

  /// Waits until the thread has let go of MPI, and keeps it out while the claim is held.
  [[nodiscard]] Claim claim();
  /// Owns nothing where the thread is inside MPI just now.
  [[nodiscard]] Claim try_claim() { return Claim(mutex_, std::try_to_lock); }

  // With the claim:
  void add(MpiOperation& operation) { operations_.push_back(&operation); }
  void remove(const MpiOperation& operation) { std::erase(operations_, &operation); }
  /// Lets all operations go on, but for one that its owner sees to; true where some are still under way.
  bool advance(const MpiOperation* but = nullptr);

  /// After operations were added that their owner will not wait for at once.
  void wake();

 private:
  void serve(RankContext& context);
  void look_after_operations();

  std::mutex mutex_;
  std::vector<MpiOperation*> operations_;  // under way
  std::condition_variable woken_;
  std::atomic<int> claimants_{0};
  std::atomic<bool> retires_{false};
  std::atomic<bool> sleeps_{false};
  bool ends_ = false;
  std::thread thread_;
};

/// Whether TESSERA_PROGRESS wants the thread, for one of `ranks` ranks that share so many cores: `auto` where each has a core more than its
/// threads need.
bool wants_progress_thread(int ranks, int cores);

}  // namespace tessera::collectives
