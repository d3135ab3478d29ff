// SPDX-License-Identifier: Apache-2.0
#include "process_memory.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace tessera::bench {

namespace {

std::int64_t bytes_in(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    std::int64_t kibibytes = 0;
    if (word == key && file >> kibibytes) return kibibytes << 10;
  }
  return 0;
}

struct ProcessBytes {
  std::array<char, 64> host{};
  std::int64_t process = 0;
  std::int64_t bytes = 0;
};

}  // namespace

std::int64_t resident_bytes() { return bytes_in("/proc/self/smaps_rollup", "Pss:"); }
std::int64_t high_water_bytes() { return bytes_in("/proc/self/status", "VmHWM:"); }

std::int64_t peak_resident_bytes(const std::function<void()>& work) {
  using namespace std::chrono_literals;
  std::int64_t peak = 0;
  std::mutex mutex;
  std::condition_variable changed;
  bool is_done = false;
  std::thread sampler([&] {
    std::unique_lock lock(mutex);
    std::chrono::steady_clock::duration pause = 0ms;
    do {
      const auto start = std::chrono::steady_clock::now();
      peak = std::max(peak, resident_bytes());
      constexpr int kPausePerSample =
          20;  // counting the pages of gigabytes takes milliseconds, perhaps of the rank's only core
      pause = std::max<std::chrono::steady_clock::duration>(
          5ms, kPausePerSample * (std::chrono::steady_clock::now() - start));
    } while (!changed.wait_for(lock, pause, [&] { return is_done; }));
  });
  const auto stop = [&] {
    {
      const std::lock_guard lock(mutex);
      is_done = true;
    }
    changed.notify_one();
    sampler.join();
  };
  try {
    work();
  } catch (...) {
    stop();
    throw;
  }
  stop();
  return std::max(peak, resident_bytes());
}

std::int64_t bytes_per_rank(ProcessGroup& world, std::int64_t bytes_of_process) {
  ProcessBytes own{.process = getpid(), .bytes = bytes_of_process};
  gethostname(own.host.data(), own.host.size() - 1);
  std::vector<ProcessBytes> all(static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
  std::map<std::pair<std::string, std::int64_t>, std::int64_t> processes;
  for (const ProcessBytes& one : all) {
    std::int64_t& bytes = processes[{one.host.data(), one.process}];
    bytes = std::max(bytes, one.bytes);
  }
  std::int64_t total = 0;
  for (const auto& [process, bytes] : processes) total += bytes;
  return total / world.size();
}

}  // namespace tessera::bench
