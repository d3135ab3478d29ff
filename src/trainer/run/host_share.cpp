// SPDX-License-Identifier: Apache-2.0
#include "run/host_share.h"

#include <fmt/format.h>

#include <algorithm>

#include "run/run_figures.h"

namespace tessera::trainer {

// Reading a metric waits for a running step, so the figures contain complete runs.
HostShare::Seconds HostShare::so_far() {
  return {.executing = seconds_of_metric("ExecuteTime") - seconds_of_metric("CollectiveTime::start"),
          .loading = seconds_of_metric("LoaderWaitTime"),
          .compiling = seconds_of_metric("PartitionTime") + seconds_of_metric("CompileTime")};
}

void HostShare::start() {
  if (start_) return;
  before_ = so_far();
  start_ = std::chrono::steady_clock::now();
}

bool HostShare::stop() {
  if (!start_) return false;
  const Seconds now = so_far();
  time_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - *start_).count();
  sum_.executing += now.executing - before_.executing;
  sum_.loading += now.loading - before_.loading;
  sum_.compiling += now.compiling - before_.compiling;
  start_.reset();
  return true;
}

std::optional<double> HostShare::share() const {
  if (time_ <= 0) return std::nullopt;
  return std::clamp(1 - sum_.executing / time_, 0.0, 1.0);
}

std::string HostShare::line() const {
  const std::optional<double> part = share();
  if (!part) return "";
  constexpr double kPercent = 100;
  return fmt::format(
      "host       the execution of rank 0 waited for the host in {:.0f}% of the time: {:.3g} s of {:.3g} s\n"
      "           batches took {:.3g} s, compilations {:.3g} s",
      kPercent * *part, *part * time_, time_, sum_.loading, sum_.compiling);
}

}  // namespace tessera::trainer
