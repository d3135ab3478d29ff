// SPDX-License-Identifier: Apache-2.0
// A gate between threads of a test.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace tessera::testing {

/// Opens once. Waits long enough for slow machines, but not forever.
class Gate {
 public:
  void open() {
    const std::scoped_lock lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  /// Returns false if the gate has not been opened within a minute.
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

}  // namespace tessera::testing
