// SPDX-License-Identifier: Apache-2.0
// All state of a rank belongs to one RankContext, which one thread_local pointer reaches. Ranks are processes (MPI)
// or threads of one process (virtual ranks), so nothing else in Tessera may be a mutable global.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

namespace tessera {

class RankContext {
 public:
  RankContext(int rank, int rank_count) : rank_(rank), rank_count_(rank_count) {}
  RankContext(const RankContext&) = delete;
  RankContext& operator=(const RankContext&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int rank_count() const { return rank_count_; }

  /// Returns the rank's only object of type T (its trace, metrics, options …). The first call constructs it. Any
  /// thread of the rank may call.
  template <class T>
  T& get() {
    {
      const std::scoped_lock lock(mutex_);
      if (const auto found = slots_.find(&kKey<T>); found != slots_.end()) return *static_cast<T*>(found->second.get());
    }
    auto made = std::make_shared<T>();  // it may ask for others
    const std::scoped_lock lock(mutex_);
    return *static_cast<T*>(slots_.try_emplace(&kKey<T>, std::move(made)).first->second.get());
  }
  /// Replaces the rank's T.
  template <class T>
  void set(std::shared_ptr<T> value) {
    std::shared_ptr<void> old = std::move(value);
    const std::scoped_lock lock(mutex_);
    slots_[&kKey<T>].swap(old);
  }
  /// Stores an object that uses the context from its own thread. It is destroyed before everything else in the
  /// context.
  void keep_worker(std::shared_ptr<void> worker) { worker_ = std::move(worker); }

  /// Returns the context of the calling thread. A thread without a context gets that of the process (rank 0 of 1
  /// unless set).
  static RankContext& current();
  /// Makes `context` the context of the calling thread and returns the previous one. A thread of the library inherits
  /// the context of its rank by calling this first.
  static RankContext* exchange_current(RankContext* context);

 private:
  int rank_;
  int rank_count_;
  template <class T>
  static constexpr char kKey{};  // its address identifies T
  std::mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<void>> slots_;
  std::shared_ptr<void> worker_;  // last, so that it is destroyed first
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
