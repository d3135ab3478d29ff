// SPDX-License-Identifier: Apache-2.0
// All state of a rank belongs to one RankContext. A thread_local pointer refers to the context of the calling thread.
// No other global may hold state of a rank, because ranks may be threads of one process (virtual ranks). Ranks of a
// process share a few caches behind a lock, such as RecentPlans (src/lowering/execution_plan.cpp).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

namespace tessera {

/// The state of one rank.
class RankContext {
 public:
  RankContext(int rank, int rank_count) : rank_(rank), rank_count_(rank_count) {}
  RankContext(const RankContext&) = delete;
  RankContext& operator=(const RankContext&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int rank_count() const { return rank_count_; }

  /// Returns the rank's only object of type T (its trace, metrics, options …). The first call constructs it. Any thread
  /// of the rank may call this function. Later calls take no lock.
  template <class T>
  T& get() {
    const std::size_t slot = slot_of<T>();
    if (void* found = slots_[slot].load(std::memory_order_acquire)) return *static_cast<T*>(found);
    auto made = std::make_shared<T>();  // its constructor may ask for others
    const std::scoped_lock lock(mutex_);
    if (owners_[slot] == nullptr) {
      slots_[slot].store(made.get(), std::memory_order_release);
      owners_[slot] = std::move(made);
    }
    return *static_cast<T*>(owners_[slot].get());
  }
  /// Replaces the rank's T.
  template <class T>
  void set(std::shared_ptr<T> value) {
    const std::size_t slot = slot_of<T>();
    std::shared_ptr<void> object = std::move(value);  // after the swap: the previous object, destroyed without the lock
    const std::scoped_lock lock(mutex_);
    slots_[slot].store(object.get(), std::memory_order_release);
    owners_[slot].swap(object);
  }
  /// Stores an object that uses the context from its own thread. It is destroyed before everything else in the
  /// context.
  void keep_worker(std::shared_ptr<void> worker) { worker_ = std::move(worker); }

  /// Returns the context of the calling thread. A thread for which none was set has its own context, with rank 0 of 1.
  static RankContext& current();
  /// Makes `context` the context of the calling thread and returns the previous one. A thread of the library inherits
  /// the context of its rank by calling this first.
  static RankContext* exchange_current(RankContext* context);

 private:
  int rank_;
  int rank_count_;
  static constexpr std::size_t kMostTypes = 64;
  static std::size_t new_slot();
  // The index of T in every context. Types get theirs in the order of their first use.
  template <class T>
  static std::size_t slot_of() {
    static const std::size_t kSlot = new_slot();
    return kSlot;
  }

  std::mutex mutex_;  // guards owners_
  std::array<std::shared_ptr<void>, kMostTypes> owners_;
  std::array<std::atomic<void*>, kMostTypes> slots_{};  // the addresses in owners_, read without the lock
  std::shared_ptr<void> worker_;                        // last, so that it is destroyed first
};

/// Makes a context current within a scope.
class RankScope {
 public:
  explicit RankScope(RankContext& context) : previous_(RankContext::exchange_current(&context)) {}
  ~RankScope() { RankContext::exchange_current(previous_); }
  RankScope(const RankScope&) = delete;
  RankScope& operator=(const RankScope&) = delete;

 private:
  RankContext* previous_;
};

}  // namespace tessera
