// SPDX-License-Identifier: Apache-2.0
// A thread that runs one job at a time for a rank, concurrently with the rank's main thread.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "tessera/base/rank_context.h"

namespace tessera {

class ExecutionWorker {
 public:
  /// `context` must outlive it.
  explicit ExecutionWorker(RankContext& context);
  /// Waits until the job has ended. An error that wait() did not rethrow is printed to standard error, unless the stack
  /// is being unwound.
  ~ExecutionWorker();
  ExecutionWorker(const ExecutionWorker&) = delete;
  ExecutionWorker& operator=(const ExecutionWorker&) = delete;

  /// Starts a job in the rank's context. Requires wait() for the previous job.
  void start(std::function<void()> job);
  /// Waits until the job has ended, and rethrows its exception once.
  void wait();
  [[nodiscard]] std::thread::id id() const { return thread_.get_id(); }

 private:
  void serve(RankContext& context);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;  // null: no job
  std::exception_ptr error_;   // of the last job
  bool ends_ = false;
  std::thread thread_;  // declared last, because it uses the other members
};

}  // namespace tessera
