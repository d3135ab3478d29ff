// SPDX-License-Identifier: Apache-2.0
#include "mpi/progress.h"

#include <sched.h>  // sched_yield

#include <algorithm>
#include <chrono>

#include "mpi/operation.h"
#include "tessera/base/options.h"
#include "tessera/base/timeline.h"

namespace tessera::collectives {
namespace {

using Clock = std::chrono::steady_clock;

// After the last operation, because the next one may follow soon.
constexpr auto kLingering = std::chrono::microseconds(200);
constexpr auto kBusy = std::chrono::milliseconds(20);  // then messages are slow and need less frequent calls
constexpr auto kNap = std::chrono::microseconds(50);

}  // namespace

bool wants_progress_thread(int ranks, int cores) {
  const std::string& asked = options().text("TESSERA_PROGRESS");
  if (asked != "auto") return asked == "1";
  const auto threads = std::max<std::int64_t>(1, options().integer("TESSERA_NUM_THREADS"));
  return ranks * (threads + 1) <= cores;
}

void Progress::start_thread(RankContext& context) {
  thread_ = std::thread([this, &context] { serve(context); });
}

void Progress::stop() {
  if (!thread_.joinable()) return;
  {
    const auto held = claim();
    ends_ = true;
  }
  woken_.notify_all();
  thread_.join();
}

// With a mutex alone, the thread that has just released it would mostly get it again.
Progress::Claim Progress::claim() {
  claimants_.fetch_add(1, std::memory_order_relaxed);
  Claim held(mutex_);
  claimants_.fetch_sub(1, std::memory_order_relaxed);
  return held;
}

bool Progress::advance(const MpiOperation* but) {
  for (MpiOperation* const operation : operations_)
    if (operation != but) operation->go_on();
  std::erase_if(operations_, [](const MpiOperation* operation) { return operation->has_ended(); });
  return !operations_.empty();
}

void Progress::wake() {
  if (sleeps_.load(std::memory_order_acquire)) woken_.notify_all();
}

void Progress::serve(RankContext& context) {
  const RankScope scope(context);
  const NamedThread name("communication");
  while (true) {
    {
      Claim held(mutex_);
      sleeps_.store(true, std::memory_order_release);
      woken_.wait(held, [this] { return ends_ || (!operations_.empty() && !retires_); });
      sleeps_.store(false, std::memory_order_release);
      if (ends_) return;
    }
    look_after_operations();
  }
}

// The owner of the claim advances all operations, so that this thread only waits for the claim.
void Progress::look_after_operations() {
  const TimelineSpan span("communication", "progress of collectives");
  auto idle_since = Clock::now();
  auto busy_since = idle_since;
  while (!retires_.load(std::memory_order_acquire)) {
    bool is_busy = true;
    if (claimants_.load(std::memory_order_relaxed) == 0) {
      const Claim held(mutex_);
      if (ends_) return;
      is_busy = advance();
    }
    const auto now = Clock::now();
    (is_busy ? idle_since : busy_since) = now;
    if (now - idle_since > kLingering) return;
    if (now - busy_since < kBusy)
      sched_yield();
    else
      std::this_thread::sleep_for(kNap);
  }
}

}  // namespace tessera::collectives
