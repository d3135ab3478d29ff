// SPDX-License-Identifier: Apache-2.0
// Work beside the computation of a rank.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

namespace tessera {

/// Runs a function in a thread, on any processor that the system allows. Errors in it name the rank that started it.
class BackgroundTask {
 public:
  enum class State : std::uint8_t { kRunning, kDone, kFailed };
  explicit BackgroundTask(std::function<void()> work);
  ~BackgroundTask() { wait(); }
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  [[nodiscard]] State state() const { return state_.load(std::memory_order_acquire); }
  void wait() {
    if (thread_.joinable()) thread_.join();
  }
  /// The processor time that the function took, if the state is not kRunning.
  [[nodiscard]] double cpu_seconds() const { return cpu_seconds_; }
  /// The message of the error, if the state is kFailed.
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  void run(const std::function<void()>& work);
  std::atomic<State> state_{State::kRunning};
  std::string error_;
  double cpu_seconds_ = 0;
  std::thread thread_;  // declared last, because it uses the other members
};

}  // namespace tessera
