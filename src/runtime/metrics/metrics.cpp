// SPDX-License-Identifier: Apache-2.0
#include "tessera/runtime/metrics/metrics.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/collectives/communication_turn.h"

namespace tessera {
namespace {

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Names in older releases.
constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
    {"TransferFromServerTime", "TransferFromDeviceTime"}, {"TransferToServerTime", "TransferToDeviceTime"}};
std::string_view current_name(std::string_view name) {
  for (const auto& [old, current] : kAliases)
    if (old == name) return current;
  return name;
}

// Metrics cover complete steps, so a step that runs concurrently must end first.
void await_step() { RankContext::current().get<CommunicationTurn>().await(); }

}  // namespace

void Metrics::count(std::string_view counter, std::int64_t amount) {
  const std::scoped_lock lock(mutex_);
  const auto found = counters_.find(counter);
  if (found != counters_.end())
    found->second += amount;
  else
    counters_.emplace(std::string(counter), amount);
}

void Metrics::add_sample(std::string_view metric, MetricUnit unit, double value,
                         std::optional<std::int64_t> timestamp_ns) {
  const auto kept = static_cast<std::size_t>(std::max<std::int64_t>(1, options().integer("XLA_METRICS_SAMPLES")));
  const std::scoped_lock lock(mutex_);
  auto found = metrics_.find(metric);
  if (found == metrics_.end()) found = metrics_.emplace(std::string(metric), MetricData{}).first;
  MetricData& data = found->second;
  data.unit = unit;
  ++data.total_samples;
  data.accumulator += value;
  data.samples.push_back({timestamp_ns.value_or(now_ns()), value});
  while (data.samples.size() > kept) data.samples.pop_front();
}

std::vector<std::string> Metrics::counter_names() const {
  await_step();
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, value] : counters_) names.push_back(name);
  return names;
}
std::vector<std::string> Metrics::metric_names() const {
  await_step();
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, data] : metrics_)
    if (data.total_samples > 0) names.push_back(name);
  return names;
}
std::optional<std::int64_t> Metrics::counter_value(std::string_view name) const {
  await_step();
  const std::scoped_lock lock(mutex_);
  const auto found = counters_.find(current_name(name));
  if (found == counters_.end()) return std::nullopt;
  return found->second;
}
std::optional<MetricData> Metrics::metric_data(std::string_view name) const {
  await_step();
  const std::scoped_lock lock(mutex_);
  const auto found = metrics_.find(current_name(name));
  if (found == metrics_.end()) return std::nullopt;
  return found->second;
}
void Metrics::clear_counters() {
  await_step();
  const std::scoped_lock lock(mutex_);
  counters_.clear();
}
void Metrics::clear_metrics() {
  await_step();
  const std::scoped_lock lock(mutex_);
  metrics_.clear();
}
void Metrics::clear_all() {
  clear_counters();
  clear_metrics();
}

std::vector<std::string> Metrics::executed_fallback_ops() const {
  std::vector<std::string> names;
  for (std::string& name : counter_names())
    if (name.starts_with("fallback::")) names.push_back(std::move(name));
  return names;
}

Metrics& metrics() { return RankContext::current().get<Metrics>(); }

std::string short_metrics_report(const std::vector<std::string>& counters, const std::vector<std::string>& names) {
  return metrics().short_report(counters, names);
}

TimedScope::~TimedScope() {
  const auto elapsed = std::chrono::steady_clock::now() - start_;
  metrics().add_sample(metric_, MetricUnit::kTime,
                       static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count()));
}

namespace {

constexpr std::string_view kProfiler = "pt-xla-profiler";  // the prefix of lines that scripts look for
constexpr std::int64_t kFirstSteps = 10;                   // compilations are expected in these steps

void advise_on_counts(std::vector<std::string>& lines, const Metrics& all, std::int64_t steps) {
  // The host must read each token that is generated before it can choose the next one.
  const std::int64_t generated = all.counter_value("GenerationSteps").value_or(0);
  steps -= generated;
  if (steps <= kFirstSteps) return;
  for (const std::string_view name : {"CompileTime", "TransferFromDeviceTime"}) {
    const auto data = all.metric_data(name);
    if (!data) continue;
    const std::int64_t count = data->total_samples - (name == "TransferFromDeviceTime" ? generated : 0);
    if (2 * count > steps)
      lines.push_back(fmt::format("{}: {} too frequent: {} counts during {} steps", kProfiler, name, count, steps));
  }
}

void advise_on_times(std::vector<std::string>& lines, const Metrics& all) {
  constexpr std::pair<std::string_view, double> kLongestNanoseconds[] = {{"CompileTime", 300e9}, {"ExecuteTime", 30e9}};
  for (const auto& [name, most] : kLongestNanoseconds) {
    const auto data = all.metric_data(name);
    if (!data) continue;
    double longest = 0;
    for (const MetricSample& sample : data->samples) longest = std::max(longest, sample.value);
    if (longest > most)
      lines.push_back(fmt::format("{}: {} too slow: longest instance took {}", kProfiler, name, format_time(longest)));
  }
}

}  // namespace

std::vector<std::string> performance_advice(const Metrics& all, std::int64_t steps) {
  std::vector<std::string> lines;
  advise_on_counts(lines, all, steps);
  advise_on_times(lines, all);
  for (const std::string& name : all.executed_fallback_ops())
    lines.push_back(
        fmt::format("{}: Op(s) not lowered: {}, please open a GitHub issue with the above op lowering requests.",
                    kProfiler, name.substr(name.rfind(':') + 1)));
  return lines;
}

}  // namespace tessera
