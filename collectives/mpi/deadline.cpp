// SPDX-License-Identifier: Apache-2.0
#include "mpi/deadline.h"

#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>

#include "mpi/launcher.h"
#include "tessera/base/options.h"

namespace tessera::collectives {

Deadline::Deadline(std::string what, int rank, int size) {
  const auto seconds = options().integer("TESSERA_COLLECTIVE_TIMEOUT");
  if (seconds == 0) return;
  thread_ = std::thread([this, seconds, what = std::move(what), rank, size] {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, std::chrono::seconds(seconds), [this] { return is_over_; })) return;
    const std::string message = fmt::format(
        "rank {} of {}: waited {} s in {}, as long as TESSERA_COLLECTIVE_TIMEOUT allows; a rank has stopped, or the "
        "network to another host is down\n",
        rank, size, seconds, what);
    std::fputs(message.c_str(), stderr);
    std::fflush(stderr);
    end_launcher();
    std::_Exit(1);
  });
}

Deadline::~Deadline() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

}  // namespace tessera::collectives
