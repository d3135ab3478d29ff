// SPDX-License-Identifier: Apache-2.0
#include "step_profile.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/log.h"
#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

// The first run, which touches its memory for the first time, does not count where there are others.
double median(std::vector<std::int64_t> samples) {
  if (samples.empty()) return 0;
  if (samples.size() > 1) samples.erase(samples.begin());
  const auto middle = samples.begin() + isize(samples) / 2;
  std::nth_element(samples.begin(), middle, samples.end());
  return static_cast<double>(*middle);
}

}  // namespace

StepProfile::~StepProfile() {
  try {
    append_file(file_, table());
  } catch (const std::exception& error) {
    log_warning("{}", error.what());
  }
}

std::string StepProfile::table() const {
  constexpr double kMicrosecond = 1e3;
  double total = 0;
  for (const Row& row : rows_) total += median(row.nanoseconds);
  std::string out = fmt::format("{}: {} steps, {:.0f} us (medians)\n         us  GFLOP/s    GB/s   step\n", program_,
                                rows_.size(), total / kMicrosecond);
  for (const Row& row : rows_) {
    const double time = std::max(1.0, median(row.nanoseconds));
    const auto bytes = static_cast<double>(row.summary.read + row.summary.written);
    out += fmt::format("{:>11.1f} {:>8.1f} {:>7.1f}   {}\n", time / kMicrosecond, row.flops / time, bytes / time,
                       row.summary.what);
  }
  return out;
}

std::unique_ptr<StepProfile> make_step_profile(const std::string& program) {
  std::string file = options().text("TESSERA_PROFILE");
  if (file.empty()) return nullptr;
  if (const int rank = RankContext::current().rank(); rank > 0) file += fmt::format(".{}", rank);
  return std::make_unique<StepProfile>(std::move(file), program);
}

}  // namespace tessera
