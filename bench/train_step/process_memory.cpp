// SPDX-License-Identifier: Apache-2.0
#include "process_memory.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

namespace tessera::bench {

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    std::int64_t kibibytes = 0;
    if (word == "Pss:" && file >> kibibytes) return kibibytes << 10;
  }
  return 0;
}

std::int64_t peak_resident_bytes(const std::function<void()>& work) {
  using namespace std::chrono_literals;
  std::int64_t peak = 0;
  std::mutex mutex;
  std::condition_variable changed;
  bool is_done = false;
  std::thread sampler([&] {
    std::unique_lock lock(mutex);
    do peak = std::max(peak, resident_bytes());
    while (!changed.wait_for(lock, 20ms, [&] { return is_done; }));
  });
  work();
  {
    const std::lock_guard lock(mutex);
    is_done = true;
  }
  changed.notify_one();
  sampler.join();
  return std::max(peak, resident_bytes());
}

}  // namespace tessera::bench
