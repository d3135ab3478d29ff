// SPDX-License-Identifier: Apache-2.0
#include "run/stop_signals.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <ctime>
#include <span>
#include <vector>

#include "tessera/base/signals.h"

namespace tessera::trainer {
namespace {

// A signal is sent to the process, so all virtual ranks share these variables.
std::atomic<int> first_signal{0};
std::atomic<std::int64_t> first_time{0};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

std::int64_t now_in_nanoseconds() {
  constexpr std::int64_t kSecond = 1'000'000'000;
  std::timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);  // allowed in a signal handler
  return std::int64_t{time.tv_sec} * kSecond + time.tv_nsec;
}

extern "C" void note_stop_signal(int signal) {
  constexpr std::int64_t kOneRequest = 1'000'000'000;
  int none = 0;
  if (first_signal.compare_exchange_strong(none, signal)) {
    first_time = now_in_nanoseconds();
    return;
  }
  const bool may_repeat = signal != first_signal || signal == SIGHUP;
  if (may_repeat && now_in_nanoseconds() - first_time < kOneRequest) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);  // delivered when this handler returns
}

// As by nohup, which keeps a program running when its terminal is closed.
bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

void watch_stop_signals() {
  leave_signals_to_another_thread();
  std::signal(SIGPIPE, SIG_IGN);  // a write to a closed pipe then returns an error
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) {
    if (signal == SIGHUP && is_ignored(signal)) continue;
    struct sigaction action {};
    action.sa_handler = note_stop_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  }
}

int StopWatcher::signal(ProcessGroup& world) {
  constexpr double kSecondsBetween = 0.25;
  constexpr std::int64_t kMostCalls = 64;
  if (world.size() == 1) return first_signal;
  if (++calls_ < interval_) return 0;
  struct Answer {
    double seconds = 0;  // of a call
    int signal = 0;
  };
  const auto now = std::chrono::steady_clock::now();
  const Answer own{std::chrono::duration<double>(now - asked_at_).count() / static_cast<double>(calls_), first_signal};
  std::vector<Answer> all(static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)),
                   {0, "the check for signals after a step"});
  Answer most;
  for (const Answer& answer : all)
    most = {std::max(most.seconds, answer.seconds), std::max(most.signal, answer.signal)};
  // Grows slowly, because the next updates may take longer than the last ones.
  interval_ = std::clamp<std::int64_t>(static_cast<std::int64_t>(kSecondsBetween / std::max(most.seconds, 1e-6)), 1,
                                       std::min(kMostCalls, 2 * interval_));
  calls_ = 0;
  asked_at_ = std::chrono::steady_clock::now();
  return most.signal;
}

std::string signal_name(int signal) {
  switch (signal) {
    case SIGINT: return "SIGINT";
    case SIGTERM: return "SIGTERM";
    case SIGUSR1: return "SIGUSR1";
    case SIGHUP: return "SIGHUP";
    default: return fmt::format("signal {}", signal);
  }
}

}  // namespace tessera::trainer
