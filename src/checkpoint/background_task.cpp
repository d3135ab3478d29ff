// SPDX-License-Identifier: Apache-2.0
#include "background_task.h"

#include <algorithm>
#include <ctime>
#include <exception>
#include <utility>

#include <pthread.h>
#include <sched.h>

#include "tessera/base/cpus.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/timeline.h"

namespace tessera {
namespace {

// A launcher binds a rank to few processors. The task would take their time although others may be idle.
void use_all_processors() {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int cpu = 0; cpu < std::min(kMostCpus, CPU_SETSIZE); ++cpu) CPU_SET(cpu, &all);
  sched_setaffinity(0, sizeof all, &all);  // without effect if the system refuses
}

double seconds_of_this_thread() {
  constexpr double kNanosecond = 1e-9;
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + kNanosecond * static_cast<double>(time.tv_nsec);
}

}  // namespace

BackgroundTask::BackgroundTask(std::function<void()> work) {
  const RankContext& context = RankContext::current();
  thread_ = std::thread([this, work = std::move(work), rank = context.rank(), ranks = context.rank_count(),
                         timeline = shared_timeline()] {
    RankContext own(rank, ranks);  // that of the rank is in use
    const RankScope scope(own);
    share_timeline(timeline);
    run(work);
  });
}

void BackgroundTask::run(const std::function<void()>& work) {
  const NamedThread name("saver");
  pthread_setname_np(pthread_self(), "tessera-save");  // for debuggers and profilers
  use_all_processors();
  State end = State::kDone;
  try {
    work();
  } catch (const std::exception& error) {
    error_ = error.what();
    end = State::kFailed;
  }
  cpu_seconds_ = seconds_of_this_thread();
  state_.store(end, std::memory_order_release);
}

}  // namespace tessera
