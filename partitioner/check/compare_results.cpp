// SPDX-License-Identifier: Apache-2.0
#include "check/compare_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "check/make_inputs.h"
#include "tessera/base/text.h"
#include "tessera/partitioner/reshard_insertion/partial_values.h"
#include "tessera/sharding/placement.h"
#include "tessera/tensor/narrow_dtype.h"

namespace tessera {
namespace {

constexpr double kFailed = 2;
// The difference relative to its bound; above 1 is a failure.
double share_of_bound(double expected, double actual, const Tolerance& tolerance) {
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) == std::isnan(actual) ? 0 : kFailed;
  if (expected == actual) return 0;
  if (std::isinf(expected) || std::isinf(actual)) return kFailed;
  return std::fabs(expected - actual) / tolerance.at(expected);
}

// The range of one element.
struct Seen {
  double low;
  double high;
  unsigned kinds;
};

// Whether the runs say little about the size of a value: it is no number in some of them, or as wide as its values.
bool is_noise(const Seen& seen) {
  return seen.kinds != 0 || seen.high - seen.low > std::max(std::fabs(seen.low), std::fabs(seen.high)) / 2;
}

// The range of the magnitudes of values with one sign; not positive if they or `actual` have the other sign.
Seen magnitudes_of(const Seen& seen, double actual) {
  if (actual > 0) return seen;
  return {-seen.high, -seen.low, 0};
}

// The distance from positive values that differ by factors, such as exponentials of noise, in logarithms.
double share_of_factors(double actual, const Seen& seen) {
  constexpr double kFactor = 2;
  if (seen.low <= 0 || actual <= 0 || seen.high < kFactor * seen.low) return kFailed;
  return (actual > seen.high ? std::log(actual / seen.high) : std::log(seen.low / actual)) /
         std::log(seen.high / seen.low);
}

// The same for values that exceed the bound: the distance from the values that were seen, relative to the bound plus
// the width of their range. The range is not multiplied: if it is too small, it should be measured in more runs. Values
// on the way from a seen number to a seen infinity count as seen, so all numbers do next to a pole, such as that of 1/x.
double share_of_range(double expected, double actual, bool is_rounded, const Tolerance& tolerance, const Seen& seen) {
  if (std::isnan(actual)) return (seen.kinds & kSeenNan) != 0 ? 0 : kFailed;
  if (std::isinf(actual)) return (seen.kinds & (actual > 0 ? kSeenInfinity : kSeenMinusInfinity)) != 0 ? 0 : kFailed;
  const bool is_at_pole = (seen.kinds & (kSeenInfinity | kSeenMinusInfinity)) != 0 && seen.low < 0 && seen.high > 0;
  if (is_at_pole) return 0;
  const bool is_above = actual > seen.high && (seen.kinds & kSeenInfinity) == 0;
  const bool is_below = actual < seen.low && (seen.kinds & kSeenMinusInfinity) == 0;
  if (!is_above && !is_below) return is_rounded || seen.low < seen.high ? 0 : kFailed;
  if (seen.low > seen.high) return kFailed;  // only infinities and NaN were seen
  const double distance = is_above ? actual - seen.high : seen.low - actual;
  const double bound = is_rounded ? tolerance.at(std::isfinite(expected) ? expected : 0) : 0;
  const double width = seen.high - seen.low + bound;
  const double share = width > 0 ? distance / width : kFailed;
  if (!is_noise(seen)) return share;
  return std::min(
      {share, share_of_factors(std::fabs(actual), magnitudes_of(seen, actual)), kFailed});  // more runs may help
}

std::string index_text(const Dims& dims, std::int64_t i) {
  Dims index(dims.size());
  for (int d = isize(dims) - 1; d >= 0; --d) {
    at(index, d) = i % at(dims, d);
    i /= at(dims, d);
  }
  return fmt::format("[{}]", fmt::join(index, ","));
}

// Differing values of one array: lists the first few with their positions and counts the others.
class Differences {
 public:
  Differences(const std::string& what, const Type& type) : what_(what), type_(type) {}
  void add(std::int64_t i, double expected, double actual) {
    if (++count_ <= kShown)
      texts_.push_back(
          fmt::format("{} at {}: expected {}, got {}", what_, index_text(type_.dims(), i), expected, actual));
  }
  void report_to(std::vector<std::string>& out) const {
    out.insert(out.end(), texts_.begin(), texts_.end());
    if (count_ > kShown) out.push_back(fmt::format("{}: {} more elements differ", what_, count_ - kShown));
  }

 private:
  static constexpr int kShown = 3;
  const std::string& what_;
  const Type& type_;
  int count_ = 0;
  std::vector<std::string> texts_;
};

void compare(const Literal& want, const Literal& have, const std::string& what, const Tolerance& tolerance,
             CheckReport& report) {
  const Literal expected = want.as_reals();
  const Literal actual = have.as_reals();
  const SeenRange range{tolerance.range.low.as_reals(), tolerance.range.high.as_reals(),
                        tolerance.range.kinds.as_reals()};
  const bool is_rounded = is_any_float(expected.type().dtype());
  const Type& type = expected.type();
  Differences failures(what, type);
  Differences ill_conditioned(what, type);
  for (std::int64_t i = 0; i < type.element_count(); ++i) {
    ++report.values_compared;
    const double a = element_as_double(expected, i);
    const double b = element_as_double(actual, i);
    double share = 0;
    if (is_rounded)
      share = share_of_bound(a, b, tolerance);
    else if (element_as_int(expected, i) != element_as_int(actual, i))
      share = kFailed;
    if (share > 1 && range.low.type().is_array()) {
      const Seen seen{element_as_double(range.low, i), element_as_double(range.high, i),
                      static_cast<unsigned>(element_as_double(range.kinds, i))};
      share = share_of_range(a, b, is_rounded, tolerance, seen);
      if (share <= 1) ill_conditioned.add(i, a, b);
    }
    report.worst = std::max(report.worst, share);
    if (share > 1) failures.add(i, a, b);
  }
  failures.report_to(report.failures);
  ill_conditioned.report_to(report.ill_conditioned);
}

void note_loose_bound(const Literal& want, const std::string& what, const Tolerance& tolerance, CheckReport& report) {
  const Literal values = want.as_reals();
  if (!is_any_float(values.type().dtype())) return;
  const double largest = magnitude_of(values);
  const double bound = tolerance.at(largest);
  if (largest > 0 && bound > largest)
    report.loosely_compared.push_back(fmt::format("{}: {:.3g} at values up to {:.3g}", what, bound, largest));
}

}  // namespace

double Tolerance::at(double expected) const {
  return relative * (std::fabs(expected) + magnitude + 0x1p-20) + absolute;
}

void compare_leaf(const std::vector<Literal>& wanted, const Sharding& given, const std::vector<Literal>& shards,
                  const ResultName& name, const Tolerance& tolerance, CheckReport& report) {
  const std::string label = fmt::format("result {} {}", name.leaf, name.type.str());
  note_loose_bound(wanted.front(), label, tolerance, report);
  const Sharding sharding = given.without_partial();
  const std::vector<Literal> pieces = reduced_shards(given, shards);
  const std::size_t known = report.ill_conditioned.size();
  if (wanted.size() == 1)
    compare(wanted.front(), assemble(wanted.front().type(), sharding, pieces), label, tolerance, report);
  const std::size_t named = report.ill_conditioned.size();
  // Every replica must be equal to the value, not only the first. Padding may hold anything, so both sides get the same
  // poison.
  const bool has_owner = sharding.kind == Sharding::Kind::kMaximal;  // the value is undefined on all others
  for (int device = 0; device < isize(pieces); ++device) {
    if (has_owner && device != sharding.device) continue;
    const Literal& want = at(wanted, wanted.size() == 1 ? 0 : device);
    const Type local = name.type.with_dims(at(pieces, device).type().dims());
    Literal mine = take_shard(want, sharding, device);
    Literal theirs = at(pieces, device);
    Tolerance here = tolerance;
    if (here.range.low.type().is_array())
      for (Literal* part : {&here.range.low, &here.range.high, &here.range.kinds})
        *part = take_shard(*part, sharding, device);
    poison_padding(mine, want.type(), sharding, device);
    poison_padding(theirs, want.type(), sharding, device);
    compare(mine, theirs, fmt::format("result {} on device {} {}", name.leaf, device, local.str()), here, report);
    if (named > known) report.ill_conditioned.resize(named);  // the shards contain elements that are listed already
  }
}

}  // namespace tessera
