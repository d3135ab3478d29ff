// SPDX-License-Identifier: Apache-2.0
#include "check/compare_results.h"

#include <algorithm>
#include <cmath>

#include "check/make_inputs.h"
#include "tessera/base/text.h"
#include "tessera/partitioner/reshard_insertion/partial_values.h"
#include "tessera/sharding/placement.h"
#include "tessera/tensor/narrow_dtype.h"

namespace tessera {
namespace {

// How far the difference is within its bound; above 1 is a failure.
double share_of_bound(double expected, double actual, const Tolerance& tolerance) {
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) == std::isnan(actual) ? 0 : 2;
  if (expected == actual) return 0;
  if (std::isinf(expected) || std::isinf(actual)) return 2;
  return std::fabs(expected - actual) / tolerance.at(expected);
}

std::string index_text(const Dims& dims, std::int64_t i) {
  Dims index(dims.size());
  for (int d = isize(dims) - 1; d >= 0; --d) {
    at(index, d) = i % at(dims, d);
    i /= at(dims, d);
  }
  return "[" + join(index, ",") + "]";
}

void compare(const Literal& want, const Literal& have, const std::string& what, const Tolerance& tolerance,
             CheckReport& report) {
  const Literal expected = want.as_reals();
  const Literal actual = have.as_reals();
  const Type& type = expected.type();
  int shown = 0;
  for (std::int64_t i = 0; i < type.element_count(); ++i) {
    ++report.values_compared;
    const double a = element_as_double(expected, i);
    const double b = element_as_double(actual, i);
    double share = 0;
    if (is_any_float(type.dtype()))
      share = share_of_bound(a, b, tolerance);
    else if (element_as_int(expected, i) != element_as_int(actual, i))
      share = 2;
    report.worst = std::max(report.worst, share);
    if (share <= 1 || ++shown > 3) continue;
    report.failures.push_back(fmt::format("{} at {}: expected {}, got {}", what, index_text(type.dims(), i), a, b));
  }
  if (shown > 3) report.failures.push_back(fmt::format("{}: {} more elements differ", what, shown - 3));
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

void compare_leaf(const Literal& want, const Sharding& given, const std::vector<Literal>& shards,
                  const ResultName& name, const Tolerance& tolerance, CheckReport& report) {
  const std::string whole = fmt::format("result {} {}", name.leaf, name.type.str());
  note_loose_bound(want, whole, tolerance, report);
  const Sharding sharding = given.without_partial();
  const std::vector<Literal> pieces = reduced_shards(given, shards);
  compare(want, assemble(want.type(), sharding, pieces), whole, tolerance, report);
  // Replicas must agree with the value, not only the first of them; padding is anything, and the same on both sides.
  const bool has_owner = sharding.kind == Sharding::Kind::kMaximal;  // the value is undefined on all others
  for (int device = 0; device < isize(pieces); ++device) {
    if (has_owner && device != sharding.device) continue;
    const Type local = name.type.with_dims(at(pieces, device).type().dims());
    Literal mine = take_shard(want, sharding, device);
    Literal theirs = at(pieces, device);
    poison_padding(mine, want.type(), sharding, device);
    poison_padding(theirs, want.type(), sharding, device);
    compare(mine, theirs, fmt::format("result {} on device {} {}", name.leaf, device, local.str()), tolerance, report);
  }
}

}  // namespace tessera
