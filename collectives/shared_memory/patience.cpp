// SPDX-License-Identifier: Apache-2.0
#include "shared_memory/patience.h"

#include <sched.h>

#include <algorithm>

#include "tessera/base/log.h"
#include "tessera/base/text.h"

namespace tessera::collectives {
namespace {

constexpr int kSpinsWithOwnCore = 3000;  // about 30 us
constexpr int kSpinsWithoutCore = 30;
constexpr auto kYielding = std::chrono::milliseconds(1);
constexpr long kSleepMicroseconds = 50;
constexpr int kRoundsBetweenChecks = 64;

}  // namespace

int Patience::spins() const { return node_.has_core_per_rank() ? kSpinsWithOwnCore : kSpinsWithoutCore; }

void Patience::relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

Patience::~Patience() {
  if (sleeping_) node_.own().waiting.store(0, std::memory_order_release);
}

void Patience::pause_slowly(const std::function<std::vector<int>()>& absent) {
  const auto now = Clock::now();
  if (begin_ == Clock::time_point{}) begin_ = now;
  if (!sleeping_ && now - begin_ < kYielding) {
    sched_yield();
    return;
  }
  if (!sleeping_) begin_sleeping();
  const bool somebody_ended = node_.sleep(kSleepMicroseconds);
  node_.check_failed();
  if (rounds_ % kRoundsBetweenChecks == 0) check_finished(absent);
  if (somebody_ended || rounds_ % kRoundsBetweenChecks == 0) node_.check_dead(text_);
  if (now - begin_ < next_report_) return;
  report(now - begin_, absent());
  next_report_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(watchdog_seconds()));
}

void Patience::begin_sleeping() {
  sleeping_ = true;
  next_report_ = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(watchdog_seconds()));
  auto& page = node_.own();
  const std::size_t length = text_.copy(page.activity.data(), page.activity.size() - 1);
  page.activity[length] = '\0';
  page.waiting.store(1, std::memory_order_release);
}

// The state is read before the question who is absent: a peer that arrived and then finished is not missed.
void Patience::check_finished(const std::function<std::vector<int>()>& absent) const {
  std::vector<int> finished;
  for (const auto& peer : node_.peers())
    if (peer.page->state.load(std::memory_order_acquire) == RankState::kFinished) finished.push_back(peer.world_rank);
  if (finished.empty()) return;
  const auto missing = absent();
  std::erase_if(finished, [&](int rank) { return std::find(missing.begin(), missing.end(), rank) == missing.end(); });
  if (finished.empty()) return;
  throw Error(finished_message(node_.world_rank(), text_, finished));
}

void Patience::report(Clock::duration waited, const std::vector<int>& absent) const {
  const auto seconds = static_cast<int>(std::chrono::duration_cast<std::chrono::seconds>(waited).count());
  std::string message = waiting_message(node_.world_rank(), seconds, text_, absent) + "\n";
  for (const auto& peer : node_.peers()) {
    if (std::find(absent.begin(), absent.end(), peer.world_rank) == absent.end()) continue;
    const auto activity = Node::activity(*peer.page);
    if (!activity.empty()) message += fmt::format("  rank {} waits in {}\n", peer.world_rank, activity);
  }
  log_line(LogLevel::kWarning, message);
}

}  // namespace tessera::collectives
