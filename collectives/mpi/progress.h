// SPDX-License-Identifier: Apache-2.0
// MPI makes progress only during its calls, and the stages of operations (operation.h) run in code of Tessera. A rank
// that waits for one operation advances all of them. If the rank has a spare core, a thread advances them while the
// rank computes (TESSERA_PROGRESS). One thread at a time is inside MPI, as MPI_THREAD_SERIALIZED requires: it holds the
// claim.
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

  /// Starts the thread, in the rank's context. It sleeps while no operation is in flight.
  void start_thread(RankContext& context);
  /// Ends the thread; must be called before MPI ends.
  void stop();
  /// Makes the thread stop calling MPI soon after. For a job that is about to be ended; may be called by any thread.
  void retire() { retires_.store(true, std::memory_order_release); }
  [[nodiscard]] bool has_thread() const { return thread_.joinable(); }

  /// Waits until the thread has left MPI. It stays outside while the claim is held.
  [[nodiscard]] Claim claim();
  /// An empty claim if the thread is inside MPI.
  [[nodiscard]] Claim try_claim() { return Claim(mutex_, std::try_to_lock); }

  // These require the claim:
  void add(MpiOperation& operation) { operations_.push_back(&operation); }
  void remove(const MpiOperation& operation) { std::erase(operations_, &operation); }
  /// Advances all operations except one that its owner advances; returns true if some are still in flight.
  bool advance(const MpiOperation* but = nullptr);

  /// Call after adding operations for which their owner does not wait immediately.
  void wake();

 private:
  void serve(RankContext& context);
  void look_after_operations();

  std::mutex mutex_;
  std::vector<MpiOperation*> operations_;  // in flight
  std::condition_variable woken_;
  std::atomic<int> claimants_{0};
  std::atomic<bool> retires_{false};
  std::atomic<bool> sleeps_{false};
  bool ends_ = false;
  std::thread thread_;
};

/// Whether TESSERA_PROGRESS requests the thread, if `ranks` ranks share `cores` cores. `auto` requests it if each rank
/// has one core more than its threads need.
bool wants_progress_thread(int ranks, int cores);

}  // namespace tessera::collectives
