// SPDX-License-Identifier: Apache-2.0
// Calls of MPI that block, and cannot be asked whether they are done: a host that does not answer would hold them for ever.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace tessera::collectives {

/// While it lives, a thread waits for TESSERA_COLLECTIVE_TIMEOUT seconds and then ends the process, which ends the job.
class Deadline {
 public:
  /// `what` takes so long, on `rank` of `size`.
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
