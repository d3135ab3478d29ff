// SPDX-License-Identifier: Apache-2.0
// Stops training on Ctrl-C and similar signals: the first signal ends the run after the current step, the second one
// immediately.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "tessera/collectives/process_group.h"

namespace tessera::trainer {

/// Starts to watch SIGINT, SIGTERM, SIGUSR1 (which cluster schedulers send before the time limit) and, if it is not
/// ignored, SIGHUP (sent when a terminal is closed). The first signal is recorded; a second one ends the process as
/// usual. Launchers may turn one Ctrl-C into two signals, and the shell and the system both send SIGHUP, so within a
/// second of the first signal a different one and another SIGHUP do not count. The handler does not run in threads that
/// compute (leave_signals_to_another_thread). From then on the process ignores SIGPIPE: if the program that reads the
/// output ends, as `tee` does on Ctrl-C, the run can still save a checkpoint.
void watch_stop_signals();
/// Asks all ranks for a signal now and then. Asking makes the ranks wait for each other and for the step under way, so it
/// happens after every step only if steps are long, and otherwise about four times a second.
class StopWatcher {
 public:
  /// Returns the signal that a rank has received, or 0. The result is the same on every rank. Call it equally often on every
  /// rank. Collective.
  int signal(ProcessGroup& world);
  /// Lets the next call ask, after something that took long. Call it on every rank.
  void ask_next() { interval_ = 1; }

 private:
  std::int64_t calls_ = 0;     // since the ranks last asked each other
  std::int64_t interval_ = 1;  // calls until they ask again
  std::chrono::steady_clock::time_point asked_at_ = std::chrono::steady_clock::now();
};
/// Returns "SIGINT", "SIGTERM", "SIGUSR1" or "SIGHUP".
std::string signal_name(int signal);

}  // namespace tessera::trainer
