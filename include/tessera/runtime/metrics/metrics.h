// SPDX-License-Identifier: Apache-2.0
// Counters and metrics of a rank, in the format of PyTorch/XLA's metrics_report().
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/timeline.h"

namespace tessera {

/// The unit of the values of a metric.
enum class MetricUnit : std::uint8_t { kNumber, kTime, kBytes };  // time in nanoseconds

/// A value of a metric and its time.
struct MetricSample {
  std::int64_t timestamp_ns = 0;
  double value = 0;
};

/// The number and the sum of all samples, and the values of the last ones. XLA_METRICS_SAMPLES sets how many samples
/// are kept (1024 by default).
struct MetricData {
  MetricUnit unit = MetricUnit::kTime;
  std::int64_t total_samples = 0;
  double accumulator = 0;
  std::deque<MetricSample> samples;
};

/// The counters and metrics of a rank. Any thread of the rank may add to them. Functions that read or clear first wait
/// until a running step has ended, so results contain complete steps.
class Metrics {
 public:
  /// Adds `amount` to a counter.
  void count(std::string_view counter, std::int64_t amount = 1);
  /// Adds a sample to a metric. The default timestamp is the current time.
  void add_sample(std::string_view metric, MetricUnit unit, double value,
                  std::optional<std::int64_t> timestamp_ns = {});

  /// The names in alphabetical order, without metrics that have no samples and counters that were cleared.
  [[nodiscard]] std::vector<std::string> counter_names() const;
  [[nodiscard]] std::vector<std::string> metric_names() const;
  /// nullopt if the name has no value. Accepts the older names TransferFromServerTime and TransferToServerTime.
  [[nodiscard]] std::optional<std::int64_t> counter_value(std::string_view name) const;
  [[nodiscard]] std::optional<MetricData> metric_data(std::string_view name) const;
  void clear_counters();
  void clear_metrics();
  void clear_all();

  /// Every metric, then every counter.
  [[nodiscard]] std::string report() const;
  /// Only the given counters and metrics. An empty list means the most important ones: those of compilations,
  /// executions, transfers and mark_step().
  [[nodiscard]] std::string short_report(const std::vector<std::string>& counters,
                                         const std::vector<std::string>& metrics) const;
  /// The counters `fallback::name`. They count ops that ran by reference evaluation, because they have no kernel for
  /// their types, and host regions. In alphabetical order.
  [[nodiscard]] std::vector<std::string> executed_fallback_ops() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::int64_t, std::less<>> counters_;
  std::map<std::string, MetricData, std::less<>> metrics_;
};

/// The metrics of the current rank.
Metrics& metrics();
inline std::string metrics_report() { return metrics().report(); }
inline std::vector<std::string> executed_fallback_ops() { return metrics().executed_fallback_ops(); }
std::string short_metrics_report(const std::vector<std::string>& counters = {},
                                 const std::vector<std::string>& metrics = {});

/// Formats a time as `04m22s555ms668.071us`: days to microseconds, without leading zero units.
std::string format_time(double nanoseconds);

/// Adds the time of a scope to a metric of the current rank, and an event with the name of the metric to its timeline.
class TimedScope {
 public:
  TimedScope(std::string_view metric, std::string_view event_category)
      : metric_(metric), start_(std::chrono::steady_clock::now()), span_(event_category, metric) {}
  ~TimedScope();
  TimedScope(const TimedScope&) = delete;
  TimedScope& operator=(const TimedScope&) = delete;

 private:
  std::string_view metric_;
  std::chrono::steady_clock::time_point start_;
  TimelineSpan span_;
};

/// Returns lines of advice after `steps` steps, such as
/// `pt-xla-profiler: CompileTime too frequent: 21 counts during 11 steps`. There is advice if, after more than ten
/// steps, compilations or reads of values are more frequent than every second step; if a compilation takes more than
/// 300 s or an execution more than 30 s; and for ops that reference evaluation ran.
std::vector<std::string> performance_advice(const Metrics& metrics, std::int64_t steps);

}  // namespace tessera
