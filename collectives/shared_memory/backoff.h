// SPDX-License-Identifier: Apache-2.0
// How a rank waits: it spins, then yields, then sleeps, and periodically checks whether the awaited event is still
// possible. Used by every wait, in shared memory and for MPI.
#pragma once

#include <chrono>
#include <functional>

#include "shared_memory/node.h"

namespace tessera::collectives {

class Backoff {
 public:
  /// kTimeout: waiting for more than TESSERA_COLLECTIVE_TIMEOUT ends the job.
  enum class Limit { kTimeout, kNone };
  Backoff(Node& node, const std::string& text, Limit limit = Limit::kTimeout)
      : node_(node), text_(text), limit_(limit) {}
  ~Backoff();
  Backoff(const Backoff&) = delete;
  Backoff& operator=(const Backoff&) = delete;

  /// Waits for a short time. `absent` returns the world ranks for which this rank waits. Throws an Error if a peer has
  /// failed, died or finished without joining, or on timeout. Prints the state every TESSERA_WATCHDOG_SECONDS.
  template <class Absent>
  void pause(Absent&& absent) {
    if (++rounds_ <= spins() && !has_spun_long()) return relax();
    pause_slowly(std::function<std::vector<int>()>(std::forward<Absent>(absent)));
  }
  /// Restarts the timeout after progress.
  void begin_again() { begin_ = {}; }

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] int spins() const;
  [[nodiscard]] bool has_spun_long();
  static void relax();
  void pause_slowly(const std::function<std::vector<int>()>& absent);
  void begin(Clock::time_point now);
  void begin_sleeping(const std::vector<int>& absent);
  void check_finished(const std::function<std::vector<int>()>& absent) const;
  void report(WaitingTime waited, const std::vector<int>& absent) const;
  [[noreturn]] void give_up(WaitingTime waited, const std::vector<int>& absent);
  [[nodiscard]] std::string cause(const std::vector<int>& absent) const;

  Node& node_;
  const std::string& text_;
  Limit limit_;
  int rounds_ = 0;
  bool sleeping_ = false;
  bool timed_out_ = false;
  Clock::time_point spins_since_{};
  Clock::time_point begin_{};
  WaitingTime next_report_{};
  WaitingTime timeout_{};
};

}  // namespace tessera::collectives
