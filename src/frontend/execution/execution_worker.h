// SPDX-License-Identifier: Apache-2.0
// A thread of a rank that runs one job at a time beside the rank's own.
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
  /// Lets the job end. What went wrong in it and nobody waited for goes to standard error, unless an exception is under way anyway.
  ~ExecutionWorker();
  ExecutionWorker(const ExecutionWorker&) = delete;
  ExecutionWorker& operator=(const ExecutionWorker&) = delete;

  /// Begins a job, in the rank's context. The one before has been waited for.
  void start(std::function<void()> job);
  /// Returns when the job has ended; throws what it threw, once.
  void wait();
  [[nodiscard]] std::thread::id id() const { return thread_.get_id(); }

 private:
  void serve(RankContext& context);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;  // null: none is to be done
  std::exception_ptr error_;   // of the last one
  bool ends_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace tessera
