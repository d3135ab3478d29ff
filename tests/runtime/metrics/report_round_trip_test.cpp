// SPDX-License-Identifier: Apache-2.0
// The report, read as a script would read it, has the values of metric_data() and counter_value().
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "runtime/metrics/report_reader.h"
#include "support/error_of.h"
#include "tessera/base/options.h"
#include "tessera/collectives/virtual_ranks.h"
#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/runtime/executable/executable.h"

namespace tessera {
namespace {

using testing::error_of;

void expect_number(MetricUnit unit, const std::string& text, double expected, const std::string& what) {
  const ReadNumber read = read_number(unit, text);
  EXPECT_NEAR(read.value, expected, read.precision + 1e-12 * std::abs(expected)) << what << ": " << text;
}

void expect_metric(const ReadMetric& read, const MetricData& data, const std::string& name) {
  EXPECT_EQ(read.total_samples, data.total_samples) << name;
  expect_number(data.unit, read.accumulator, data.accumulator, name + " accumulator");
  std::vector<double> sorted;
  double sum = 0;
  for (const MetricSample& sample : data.samples) {
    sorted.push_back(sample.value);
    sum += sample.value;
  }
  std::sort(sorted.begin(), sorted.end());
  ASSERT_EQ(read.percentiles.size(), 9U) << name;
  for (const auto& [part, text] : read.percentiles) {
    const auto n = static_cast<double>(sorted.size());
    const auto index = std::min(sorted.size() - 1, static_cast<std::size_t>(std::floor(part * n + 1e-9)));
    expect_number(data.unit, text, sorted[index], name + " percentile");
  }
  const auto window = static_cast<double>(data.samples.back().timestamp_ns - data.samples.front().timestamp_ns) * 1e-9;
  EXPECT_EQ(read.rate.empty(), window <= 0) << name;
  if (read.rate.empty()) return;
  expect_number(data.unit, read.value_rate, sum / window, name + " value rate");
  const double rate = static_cast<double>(sorted.size()) / window;
  EXPECT_NEAR(std::stod(read.rate), rate, 1e-5 * rate) << name;
}

void expect_round_trip(const Metrics& all) {
  const ReadReport read = read_report(all.report());
  std::vector<std::string> metric_names, counter_names;
  for (const auto& [name, metric] : read.metrics) {
    metric_names.push_back(name);
    expect_metric(metric, *all.metric_data(name), name);
  }
  for (const auto& [name, value] : read.counters) {
    counter_names.push_back(name);
    EXPECT_EQ(value, all.counter_value(name)) << name;
  }
  EXPECT_EQ(metric_names, all.metric_names());
  EXPECT_EQ(counter_names, all.counter_names());
}

TEST(ReportRoundTrip, HasTheSamplesOfEveryUnitAndMagnitude) {
  options().set("XLA_METRICS_SAMPLES", "40");
  Metrics all;
  std::mt19937_64 random(5);
  std::int64_t now = 0;
  for (int i = 0; i < 100; ++i) {
    const auto magnitude = [&](double most) { return std::pow(10, std::uniform_real_distribution(0.0, most)(random)); };
    now += static_cast<std::int64_t>(magnitude(10));
    all.add_sample("ExecuteTime", MetricUnit::kTime, magnitude(16), now);
    all.add_sample("InboundData", MetricUnit::kBytes, std::floor(magnitude(13)), now);
    all.add_sample("InputOutputAliasCount", MetricUnit::kNumber, std::floor(magnitude(6)), now);
    all.count("CachedCompile", i);
  }
  all.add_sample("CompileTime", MetricUnit::kTime, 28.920153731e9, now);  // one sample has no rates
  all.count("fallback::sort");
  expect_round_trip(all);
  options().set("XLA_METRICS_SAMPLES", "1024");
}

TEST(ReportRoundTrip, HasTheMetricsOfARun) {
  const auto world = make_single_rank_world();
  metrics().clear_all();
  const Program program = parse_program(
      "HloModule m\nENTRY e { x = f32[300] parameter(0)\n  y = f32[300] sinh(x)\n  ROOT z = f32[300] add(y, x) }\n",
      op_table());
  for (int run = 0; run < 7; ++run) (void)run_program(program, *world, {Literal(Type::array(DType::kF32, {300}))});
  EXPECT_EQ(metrics().metric_data("ExecuteTime")->total_samples, 7);
  expect_round_trip(metrics());
}

TEST(ReportRoundTrip, TheReaderRefusesOtherTexts) {
  Metrics all;
  all.add_sample("ExecuteTime", MetricUnit::kTime, 5);
  all.count("MarkStep", 3);
  const std::string text = all.report();
  EXPECT_EQ(error_of([&] { (void)read_report(text + "rest\n"); }), "expected the end, got \"rest\"");
  for (const std::string part : {"TotalSamples", "Accumulator", "Percentiles", "Value"}) {
    std::string damaged = text;
    damaged.erase(damaged.rfind(part), 1);
    EXPECT_NE(error_of([&] { (void)read_report(damaged); }), "no error") << damaged;
  }
  EXPECT_NE(error_of([] { (void)read_number(MetricUnit::kTime, "5.0years"); }), "no error");
}

}  // namespace
}  // namespace tessera
