// SPDX-License-Identifier: Apache-2.0
#include "shared_memory/backoff.h"

#include <sched.h>

#include <algorithm>

#include "tessera/base/log.h"
#include "tessera/base/text.h"

namespace tessera::collectives {
namespace {

constexpr int kSpinsWithOwnCore = 3000;  // about 30 us
constexpr int kSpinsWithoutCore = 30;
constexpr int kSpinsBetweenClocks = 8;
constexpr auto kSpinning = std::chrono::milliseconds(1);
constexpr auto kYielding = std::chrono::milliseconds(1);
constexpr long kSleepMicroseconds = 50;
constexpr int kRoundsBetweenChecks = 64;

}  // namespace

int Backoff::spins() const { return node_.has_core_per_rank() ? kSpinsWithOwnCore : kSpinsWithoutCore; }

// A spin may call MPI, which yields: on a busy machine, the usual number of spins could take many seconds.
bool Backoff::has_spun_long() {
  if (rounds_ % kSpinsBetweenClocks != 0) return false;
  const auto now = Clock::now();
  if (spins_since_ == Clock::time_point{}) spins_since_ = now;
  if (now - spins_since_ < kSpinning) return false;
  rounds_ = spins();
  return true;
}

void Backoff::relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// After a timeout, peers that time out a moment later still see for which ranks this one waited.
Backoff::~Backoff() {
  if (sleeping_ && !timed_out_) node_.stop_waiting();
}

void Backoff::pause_slowly(const std::function<std::vector<int>()>& absent) {
  const auto now = Clock::now();
  if (begin_ == Clock::time_point{}) begin(now);
  if (!sleeping_ && now - begin_ < kYielding) {
    sched_yield();
    return;
  }
  if (!sleeping_) begin_sleeping(absent());
  const bool rank_ended = node_.sleep(kSleepMicroseconds);
  node_.check_failed();
  const bool checks = rounds_ % kRoundsBetweenChecks == 0;
  if (checks) check_finished(absent);
  if (checks) node_.wait_for(absent());
  if (rank_ended || checks) node_.check_dead(text_);
  const WaitingTime waited = now - begin_;
  if (waited >= timeout_) give_up(waited, absent());
  if (waited < next_report_) return;
  report(waited, absent());
  next_report_ += watchdog_interval();
}

void Backoff::begin(Clock::time_point now) {
  begin_ = now;
  next_report_ = watchdog_interval();
  timeout_ = limit_ == Limit::kTimeout ? collective_timeout() : WaitingTime::max();
}

void Backoff::begin_sleeping(const std::vector<int>& absent) {
  sleeping_ = true;
  node_.wait_for(absent);
  node_.begin_waiting(text_);
}

// Read the state first, then the absent ranks, so that a peer that arrived and then finished does not count as absent.
void Backoff::check_finished(const std::function<std::vector<int>()>& absent) const {
  std::vector<int> finished;
  for (const auto& peer : node_.peers())
    if (peer.page->state.load(std::memory_order_acquire) == RankState::kFinished) finished.push_back(peer.world_rank);
  if (finished.empty()) return;
  const auto missing = absent();
  std::erase_if(finished, [&](int rank) { return std::find(missing.begin(), missing.end(), rank) == missing.end(); });
  if (finished.empty()) return;
  throw Error(finished_message(node_.world_rank(), text_, finished));
}

void Backoff::report(WaitingTime waited, const std::vector<int>& absent) const {
  log_line(LogLevel::kWarning,
           waiting_message(node_.world_rank(), static_cast<int>(waited.count()), text_, absent) + cause(absent));
}

void Backoff::give_up(WaitingTime waited, const std::vector<int>& absent) {
  timed_out_ = true;
  node_.wait_for(absent);
  throw CollectiveTimeout(timeout_message(static_cast<int>(waited.count()), text_, absent) + cause(absent));
}

std::string Backoff::cause(const std::vector<int>& absent) const {
  return cause_text(node_.world_rank(), absent, [this](int rank) { return node_.activity(rank); });
}

}  // namespace tessera::collectives
