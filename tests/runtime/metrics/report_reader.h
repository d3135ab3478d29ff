// SPDX-License-Identifier: Apache-2.0
// Reads the text of metrics_report(), as scripts of users do.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tessera/runtime/metrics/metrics.h"

namespace tessera {

/// A number of the report, and the largest difference to the exact number that its digits allow.
struct ReadNumber {
  double value = 0;  // in nanoseconds, bytes or numbers
  double precision = 0;
};

struct ReadMetric {
  std::int64_t total_samples = 0;
  std::string accumulator;
  std::string value_rate;  // "" if the report has no rates
  std::string rate;
  std::vector<std::pair<double, std::string>> percentiles;  // {0.5, "03s000ms000.000us"}
};

struct ReadReport {
  std::map<std::string, ReadMetric> metrics;
  std::map<std::string, std::int64_t> counters;
};

/// Throws an Error with the line unless the text has exactly the known format.
ReadReport read_report(const std::string& text);
/// Reads `04m22s555ms668.071us`, `1.50KB` or `2.00`.
ReadNumber read_number(MetricUnit unit, const std::string& text);

}  // namespace tessera
