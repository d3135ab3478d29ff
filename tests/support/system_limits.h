// SPDX-License-Identifier: Apache-2.0
// Limits of the system, lowered for the time of a test.
#pragma once

#include <sys/resource.h>

#include <csignal>

namespace tessera::testing {

/// Lowers a soft limit of this process. A file that would exceed RLIMIT_FSIZE is an error of write(), as on a full disk.
class LoweredLimit {
 public:
  LoweredLimit(__rlimit_resource_t resource, rlim_t most)
      : resource_(resource), handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(resource, &before_);
    const rlimit lowered{most, before_.rlim_max};
    setrlimit(resource, &lowered);
  }
  ~LoweredLimit() {
    setrlimit(resource_, &before_);
    (void)std::signal(SIGXFSZ, handler_);
  }
  LoweredLimit(const LoweredLimit&) = delete;
  LoweredLimit& operator=(const LoweredLimit&) = delete;

 private:
  __rlimit_resource_t resource_;
  void (*handler_)(int);
  rlimit before_{};
};

}  // namespace tessera::testing
