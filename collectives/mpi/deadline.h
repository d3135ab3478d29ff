// SPDX-License-Identifier: Apache-2.0
// A time limit for blocking calls of MPI that cannot be tested for completion: a host that does not answer would block
// them forever.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace tessera::collectives {

/// During its lifetime, a thread waits for TESSERA_COLLECTIVE_TIMEOUT seconds and then ends the process, which ends the
/// job.
class Deadline {
 public:
  /// `what`: the activity that takes too long, on `rank` of `size`.
  Deadline(std::string what, int rank, int size);
  ~Deadline();
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace tessera::collectives
