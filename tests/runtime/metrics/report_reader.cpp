// SPDX-License-Identifier: Apache-2.0
#include "runtime/metrics/report_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

// Takes a number from the beginning of a text.
double take_number(std::string_view& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc(), "\"{}\" does not begin with a number", text);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

double number_in(std::string_view text) {
  const double value = take_number(text);
  require(text.empty(), "\"{}\" follows a number", text);
  return value;
}

// The lines of a report, one after the other.
class Lines {
 public:
  explicit Lines(const std::string& text) : lines_(split(text, '\n')) {
    if (!lines_.empty() && lines_.back().empty()) lines_.pop_back();
  }
  [[nodiscard]] bool is_end() const { return next_ == lines_.size(); }
  // The text after `start` if the next line begins with it, and then goes to the next line.
  bool take(std::string_view start, std::string& rest) {
    if (is_end() || !lines_[next_].starts_with(start)) return false;
    rest = lines_[next_++].substr(start.size());
    return true;
  }
  std::string must_take(std::string_view start) {
    std::string rest;
    require(take(start, rest), "expected a line that begins with \"{}\", got \"{}\"", start,
            [&] { return is_end() ? std::string("the end") : lines_[next_]; });
    return rest;
  }

 private:
  std::vector<std::string> lines_;
  std::size_t next_ = 0;
};

std::string without_end(const std::string& text, std::string_view end) {
  require(text.ends_with(end), "\"{}\" does not end with \"{}\"", text, end);
  return text.substr(0, text.size() - end.size());
}

ReadMetric read_metric(Lines& in) {
  ReadMetric out;
  out.total_samples = static_cast<std::int64_t>(number_in(in.must_take("  TotalSamples: ")));
  out.accumulator = in.must_take("  Accumulator: ");
  std::string text;
  if (in.take("  ValueRate: ", text)) {
    out.value_rate = without_end(text, " / second");
    out.rate = without_end(in.must_take("  Rate: "), " / second");
  }
  for (std::string& part : split(in.must_take("  Percentiles: "), ';')) {
    const auto equals = part.find("%=");
    require(equals != std::string::npos, "\"{}\" is not a percentile", part);
    out.percentiles.emplace_back(number_in(trim(part.substr(0, equals))) / 100, part.substr(equals + 2));
  }
  return out;
}

}  // namespace

ReadReport read_report(const std::string& text) {
  ReadReport out;
  Lines in(text);
  std::string name;
  while (in.take("Metric: ", name)) out.metrics[name] = read_metric(in);
  while (in.take("Counter: ", name))
    out.counters[name] = static_cast<std::int64_t>(number_in(in.must_take("  Value: ")));
  require(in.is_end(), "expected the end, got \"{}\"", [&] { return in.must_take(""); });
  return out;
}

ReadNumber read_number(MetricUnit unit, const std::string& text) {
  using Units = std::vector<std::pair<std::string_view, double>>;
  static const Units kTimes = {{"d", 86400e9}, {"h", 3600e9}, {"ms", 1e6}, {"m", 60e9}, {"s", 1e9}, {"us", 1e3}};
  static const Units kBytes = {{"B", 1},       {"KB", 0x1p10}, {"MB", 0x1p20},
                               {"GB", 0x1p30}, {"TB", 0x1p40}, {"PB", 0x1p50}};
  constexpr double kTimeDigits = 1e-3, kOtherDigits = 1e-2;
  if (unit == MetricUnit::kNumber) return {number_in(text), kOtherDigits};
  const bool is_time = unit == MetricUnit::kTime;
  ReadNumber out;
  for (std::string_view rest = text; !rest.empty();) {
    const double number = take_number(rest);
    const Units& units = is_time ? kTimes : kBytes;
    const auto found =
        std::find_if(units.begin(), units.end(), [&](const auto& u) { return rest.starts_with(u.first); });
    require(found != units.end(), "{}: no unit at \"{}\"", text, rest);
    rest.remove_prefix(found->first.size());
    out.value += number * found->second;
    out.precision = found->second * (is_time ? kTimeDigits : kOtherDigits);
    require(is_time || rest.empty(), "{}: \"{}\" follows the unit", text, rest);
  }
  return out;
}

}  // namespace tessera
