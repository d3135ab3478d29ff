// SPDX-License-Identifier: Apache-2.0
#include "background_task.h"

#include <algorithm>
#include <exception>
#include <utility>

#include <pthread.h>
#include <sched.h>

#include "tessera/base/cpus.h"
#include "tessera/base/rank_context.h"

namespace tessera {
namespace {

// A launcher binds a rank to few processors. The task would take their time although others may be idle.
void use_all_processors() {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int cpu = 0; cpu < std::min(kMostCpus, CPU_SETSIZE); ++cpu) CPU_SET(cpu, &all);
  sched_setaffinity(0, sizeof all, &all);  // without effect if the system refuses
}

}  // namespace

BackgroundTask::BackgroundTask(std::function<void()> work) {
  const RankContext& context = RankContext::current();
  thread_ = std::thread(
      [this, work = std::move(work), rank = context.rank(), ranks = context.rank_count()] { run(work, rank, ranks); });
}

void BackgroundTask::run(const std::function<void()>& work, int rank, int ranks) {
  RankContext context(rank, ranks);  // that of the rank is in use
  const RankScope scope(context);
  pthread_setname_np(pthread_self(), "tessera-save");  // for debuggers and profilers
  use_all_processors();
  try {
    work();
    state_.store(State::kDone, std::memory_order_release);
  } catch (const std::exception& error) {
    error_ = error.what();
    state_.store(State::kFailed, std::memory_order_release);
  }
}

}  // namespace tessera
