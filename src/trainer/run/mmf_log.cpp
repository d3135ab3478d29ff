// SPDX-License-Identifier: Apache-2.0
#include "run/mmf_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tessera::trainer {
namespace {

// mmf prints five decimals. A small rate has so many that three digits remain. Never 1e-05, which a script that expects
// mmf's form would read as 1.
std::string decimal_rate(double rate) {
  constexpr int kLeast = 5;
  constexpr int kMost = 20;
  const int decimals =
      rate > 0 ? std::clamp(2 - static_cast<int>(std::floor(std::log10(rate))), kLeast, kMost) : kLeast;
  std::string out = fmt::format("{:.{}f}", rate, decimals);
  out.erase(out.find_last_not_of('0') + 1);
  return out.ends_with('.') ? out + "0" : out;
}

}  // namespace

std::string mmf_duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  constexpr std::int64_t kSecond = 1000;
  constexpr std::int64_t kMinute = 60 * kSecond;
  constexpr std::int64_t kHour = 60 * kMinute;
  const auto all = static_cast<std::int64_t>(seconds * static_cast<double>(kSecond));
  std::string out;
  if (all >= kHour) out += fmt::format("{:02}h ", all / kHour);
  if (const auto minutes = all % kHour / kMinute; minutes > 0) out += fmt::format("{:02}m ", minutes);
  if (const auto full_seconds = all % kMinute / kSecond; full_seconds > 0) out += fmt::format("{:02}s ", full_seconds);
  if (const auto rest = all % kSecond; rest > 0) out += fmt::format("{:03}ms ", rest);
  if (out.empty()) return "0ms";
  out.pop_back();
  return out;
}

std::string mmf_log_text(const LogEntry& entry, const MmfStyle& style) {
  const double loss = entry.loss.value_or(0);
  std::string out = fmt::format("progress: {}/{}", entry.step, style.last_step);
  for (const char* name : {"loss_0", "total_loss"})
    out += fmt::format(", train/{0}: {1:.4f}, train/{0}/avg: {2:.4f}", name, loss, style.mean_loss);
  // mmf counts epochs from 1; the entry has the number of completed ones, with the current one as a fraction.
  const auto epoch = static_cast<std::int64_t>(std::max(1.0, std::ceil(entry.epoch)));
  out += fmt::format(", experiment: {}, epoch: {}, num_updates: {}, iterations: {}, max_updates: {}", style.experiment,
                     epoch, entry.step, style.iterations, style.last_step);
  return out + fmt::format(", lr: {}, ups: {:.2f}, time: {}, time_since_start: {}, eta: {}",
                           decimal_rate(entry.learning_rate.value_or(0)), entry.ups.value_or(0),
                           mmf_duration_text(style.seconds), mmf_duration_text(entry.time_since_start.value_or(0)),
                           mmf_duration_text(entry.eta.value_or(0)));
}

}  // namespace tessera::trainer
