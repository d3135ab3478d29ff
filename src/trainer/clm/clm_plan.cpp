// SPDX-License-Identifier: Apache-2.0
#include "clm/clm_plan.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

namespace tessera::trainer {

void on_threads(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr error;
  const auto loop = [&] {
    for (std::size_t i = next++; i < count; i = next++) try {
        work(i);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (!error) error = std::current_exception();
        next = count;
      }
  };
  const std::size_t threads = std::min<std::size_t>(count, std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::thread> running;
  for (std::size_t i = 1; i < threads; ++i) running.emplace_back(loop);
  loop();
  for (std::thread& thread : running) thread.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace tessera::trainer
