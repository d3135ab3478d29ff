// SPDX-License-Identifier: Apache-2.0
// The host-bound share of a training: the part of the time of its updates in which the execution waited for the host.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace tessera::trainer {

/// Adds up the periods between start() and stop(). In a period, the execution of this rank waits for the host whenever
/// it does not run a program: during tracing, compilation, the making of batches and their transfer, reads, logs and
/// callbacks. The time in a program until all ranks have begun it counts too: it is a wait for the host of another rank.
class HostShare {
 public:
  /// Begins a period, unless there is one. Waits for a running step.
  void start();
  /// Ends the period, after a running step. Returns false if there is none.
  bool stop();
  /// Of the ended periods, in 0..1. nullopt if there are none.
  [[nodiscard]] std::optional<double> share() const;
  /// The line for the user. "" if there are no periods.
  [[nodiscard]] std::string line() const;

 private:
  struct Seconds {
    double executing = 0;  // programs, from the moment when all ranks have begun them
    double loading = 0;    // the updates waited for batches
    double compiling = 0;
  };
  static Seconds so_far();

  std::optional<std::chrono::steady_clock::time_point> start_;
  Seconds before_;  // at start_
  Seconds sum_;
  double time_ = 0;  // of the periods, in seconds
};

}  // namespace tessera::trainer
