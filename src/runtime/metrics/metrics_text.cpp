// SPDX-License-Identifier: Apache-2.0
// Formats metrics: times, bytes, the report.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "tessera/base/error.h"
#include "tessera/base/options.h"
#include "tessera/base/text.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {
namespace {

struct TimeUnit {
  std::string_view suffix;
  double nanoseconds;
  int width;
};
constexpr std::array kUnits = {TimeUnit{"d", 86400e9, 2}, TimeUnit{"h", 3600e9, 2}, TimeUnit{"m", 60e9, 2},
                               TimeUnit{"s", 1e9, 2}, TimeUnit{"ms", 1e6, 3}};

std::string format_value(MetricUnit unit, double value) {
  switch (unit) {
    case MetricUnit::kTime: return format_time(value);
    case MetricUnit::kBytes: return format_bytes(value);
    case MetricUnit::kNumber: break;
  }
  return fmt::format("{:.2f}", value);
}

std::vector<double> percentiles() {
  std::vector<double> out;
  for (const std::string& part : split(options().text("XLA_METRICS_PERCENTILES"), ':')) {
    double value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    require(error == std::errc() && end == part.data() + part.size() && value >= 0 && value <= 1,
            "XLA_METRICS_PERCENTILES: {} is not a number between 0 and 1", part);
    out.push_back(value);
  }
  return out;
}

void append_metric(std::string& out, const std::string& name, const MetricData& data) {
  out += fmt::format("Metric: {}\n  TotalSamples: {}\n  Accumulator: {}\n", name, data.total_samples,
                     format_value(data.unit, data.accumulator));
  double retained = 0;
  std::vector<double> sorted;
  for (const MetricSample& sample : data.samples) {
    retained += sample.value;
    sorted.push_back(sample.value);
  }
  const double window =
      data.samples.empty()
          ? 0
          : static_cast<double>(data.samples.back().timestamp_ns - data.samples.front().timestamp_ns) * 1e-9;
  if (window > 0) {
    out += fmt::format("  ValueRate: {} / second\n", format_value(data.unit, retained / window));
    out += fmt::format("  Rate: {:.6g} / second\n", static_cast<double>(data.samples.size()) / window);
  }
  if (sorted.empty()) return;
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::string> parts;
  for (const double p : percentiles()) {
    const auto index = std::min(sorted.size() - 1, static_cast<std::size_t>(p * static_cast<double>(sorted.size())));
    parts.push_back(fmt::format("{:g}%={}", p * 100, format_value(data.unit, sorted[index])));
  }
  out += fmt::format("  Percentiles: {}\n", fmt::join(parts, "; "));
}

void append_counter(std::string& out, const std::string& name, std::int64_t value) {
  out += fmt::format("Counter: {}\n  Value: {}\n", name, value);
}

}  // namespace

std::string format_time(double nanoseconds) {
  std::string out;
  double rest = nanoseconds;
  for (const TimeUnit& unit : kUnits) {
    const auto count = static_cast<std::int64_t>(rest / unit.nanoseconds);
    rest -= static_cast<double>(count) * unit.nanoseconds;
    if (count != 0 || !out.empty()) out += fmt::format("{:0{}}{}", count, unit.width, unit.suffix);
  }
  return out + fmt::format("{:07.3f}us", std::max(0.0, rest) * 1e-3);
}

std::string Metrics::report() const {
  std::string out;
  for (const std::string& name : metric_names()) append_metric(out, name, *metric_data(name));
  for (const std::string& name : counter_names()) append_counter(out, name, *counter_value(name));
  return out;
}

std::string Metrics::short_report(const std::vector<std::string>& counters,
                                  const std::vector<std::string>& names) const {
  static const std::vector<std::string> kCounters = {"CachedCompile", "MarkStep", "UncachedCompile"};
  static const std::vector<std::string> kMetrics = {"CompileTime", "ExecuteTime", "ExecuteReplicatedTime",
                                                    "TransferToDeviceTime", "TransferFromDeviceTime"};
  std::string out;
  for (const std::string& name : names.empty() ? kMetrics : names)
    if (const auto data = metric_data(name); data && data->total_samples > 0) append_metric(out, name, *data);
  for (const std::string& name : counters.empty() ? kCounters : counters)
    if (const auto value = counter_value(name)) append_counter(out, name, *value);
  return out;
}

}  // namespace tessera
