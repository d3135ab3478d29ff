// SPDX-License-Identifier: Apache-2.0
#include "execution/execution_worker.h"

#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/base/timeline.h"

namespace tessera {

ExecutionWorker::ExecutionWorker(RankContext& context) : thread_([this, &context] { serve(context); }) {}

ExecutionWorker::~ExecutionWorker() {
  try {
    wait();
  } catch (const std::exception& error) {
    if (std::uncaught_exceptions() == 0) log_line(LogLevel::kError, message_for_user(error));
  }
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ExecutionWorker::start(std::function<void()> job) {
  {
    const std::scoped_lock lock(mutex_);
    ensure(job_ == nullptr && error_ == nullptr, "a job begins before the previous one has finished");
    job_ = std::move(job);
  }
  changed_.notify_all();
}

void ExecutionWorker::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return job_ == nullptr; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ExecutionWorker::serve(RankContext& context) {
  const RankScope scope(context);
  const NamedThread name("execution worker");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return job_ != nullptr || ends_; });
    if (job_ == nullptr) return;
    lock.unlock();
    std::exception_ptr error;
    try {
      job_();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    job_ = nullptr;
    error_ = std::move(error);
    changed_.notify_all();
  }
}

}  // namespace tessera
