// SPDX-License-Identifier: Apache-2.0
// All state of a rank lives in one RankContext, reached through one thread_local pointer. Ranks may be processes (MPI) or
// threads of one process (virtual ranks), so nothing else in Tessera may be a mutable global.
#pragma once

#include <memory>
#include <typeindex>
#include <unordered_map>

namespace tessera {

class RankContext {
 public:
  RankContext(int rank, int rank_count) : rank_(rank), rank_count_(rank_count) {}
  RankContext(const RankContext&) = delete;
  RankContext& operator=(const RankContext&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int rank_count() const { return rank_count_; }

  /// The rank's single T (its trace, metrics, options …), default-constructed at the first use. Not thread-safe.
  template <class T>
  T& get() {
    auto& slot = slots_[std::type_index(typeid(T))];
    if (!slot) slot = std::make_shared<T>();
    return *static_cast<T*>(slot.get());
  }
  /// Replaces the rank's T.
  template <class T>
  void set(std::shared_ptr<T> value) {
    slots_[std::type_index(typeid(T))] = std::move(value);
  }

  /// The context of the calling thread; a thread that has none gets that of the process (rank 0 of 1 unless set).
  static RankContext& current();
  /// Makes `context` the calling thread's; returns the one before. Library threads inherit by calling this first.
  static RankContext* exchange_current(RankContext* context);

 private:
  int rank_;
  int rank_count_;
  std::unordered_map<std::type_index, std::shared_ptr<void>> slots_;
};

/// Makes a context current for a scope.
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
