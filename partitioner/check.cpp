// SPDX-License-Identifier: Apache-2.0
#include "tessera/partitioner/check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "check_magnitudes.h"
#include "leaves.h"
#include "localize.h"
#include "lone_collectives.h"
#include "manual.h"
#include "tessera/base/text.h"
#include "tessera/ops/evaluate.h"
#include "tessera/partitioner/addends.h"
#include "tessera/passes/passes.h"
#include "tessera/sharding/placement.h"

namespace tessera {
namespace {

// splitmix64: the same draws on every machine.
class Draws {
 public:
  explicit Draws(std::uint64_t seed, double scale = 1) : state_(seed), scale_(scale) {}
  std::uint64_t next() { return hash_mix(state_, ++count_); }
  double symmetric() { return (static_cast<double>(next() >> 11) * 0x1.0p-52 - 1) * scale_; }

 private:
  std::uint64_t state_;
  double scale_;
  std::uint64_t count_ = 0;
};

template <class T>
T draw(Draws& draws) {
  if constexpr (kDTypeOf<T> == DType::kPred) {
    return (draws.next() & 1U) != 0;
  } else if constexpr (is_float(kDTypeOf<T>)) {
    return static_cast<T>(draws.symmetric());
  } else {
    const auto small = static_cast<std::int64_t>(draws.next() % 12U) - (is_signed_int(kDTypeOf<T>) ? 3 : 0);
    return static_cast<T>(small);
  }
}

Literal draw_complex(const Type& type, Draws& draws) {
  Literal out(type);
  visit_any_dtype(type.dtype(), [&]<class T>() {
    if constexpr (is_complex(kDTypeOf<T>)) {
      for (auto& element : out.mutable_data<T>()) {
        const auto real = draw<typename T::value_type>(draws);
        element = T(real, draw<typename T::value_type>(draws));
      }
    }
  });
  return out;
}

Literal draw_literal(const Type& type, Draws& draws) {
  if (type.is_tuple()) {
    std::vector<Literal> elements;
    for (const auto& element : type.elements()) elements.push_back(draw_literal(element, draws));
    return Literal::tuple(std::move(elements));
  }
  if (type.is_array() && is_complex(type.dtype())) return draw_complex(type, draws);
  Literal out(type);
  if (type.is_array() && is_narrow(type.dtype()))
    for (auto& element : out.mutable_bytes())
      element = static_cast<std::byte>(narrow_bits(type.dtype(), draw<float>(draws)));
  else if (type.is_array())
    visit_dtype(type.dtype(), [&]<class T>() {
      for (auto& element : out.mutable_data<T>()) element = draw<T>(draws);
    });
  return out;
}

template <class T>
T poison() {
  if constexpr (is_complex(kDTypeOf<T>))
    return T(std::numeric_limits<typename T::value_type>::quiet_NaN());
  else if constexpr (kDTypeOf<T> == DType::kPred)
    return true;
  else if constexpr (is_float(kDTypeOf<T>))
    return static_cast<T>(std::numeric_limits<double>::quiet_NaN());
  else
    return std::numeric_limits<T>::max();
}

// Overwrites what lies outside the device's interval of the global array.
void poison_padding(Literal& local, const Type& global, const Sharding& sharding, std::int64_t device) {
  if (!sharding.is_tiled() || is_even(global, sharding) || is_narrow(global.dtype())) return;
  const Placement placement = placement_of(global, sharding);
  Dims sizes;
  for (int d = 0; d < global.ndim(); ++d) sizes.push_back(placement.interval(device, d).size());
  visit_any_dtype(global.dtype(), [&]<class T>() {
    auto data = local.mutable_data<T>();
    std::size_t i = 0;
    for_each_index(local.type().dims(), [&](const Dims& index) {
      bool inside = true;
      for (std::size_t d = 0; d < index.size(); ++d) inside = inside && index[d] < sizes[d];
      if (!inside) data[i] = poison<T>();
      ++i;
    });
  });
}

Dims parse_dims(const std::string& text) {
  Dims dims;
  for (const auto& part : split(text, ',')) dims.push_back(std::stoll(part));
  return dims;
}

void observe(std::int64_t device, const Computation& computation, Id id, Literal& value) {
  const auto& instruction = computation[id];
  const auto* dims = instruction.frontend_attribute(kGlobalDimsAttribute);
  if (dims == nullptr || !instruction.sharding || !instruction.type.is_array()) return;
  poison_padding(value, Type::array(instruction.type.dtype(), parse_dims(*dims)), instruction.sharding->front(),
                 device);
}

// The value with another array in place of each leaf.
template <class F>
Literal with_leaves(const Literal& value, F&& leaf) {
  if (!value.type().is_tuple()) return value.type().is_array() ? leaf(value) : (leaf(value), value);
  std::vector<Literal> elements;
  for (const auto& element : value.elements()) elements.push_back(with_leaves(element, leaf));
  return Literal::tuple(std::move(elements));
}

// Addends add up exactly in these.
double unit_of(double scale) { return scale / 8; }

// By device, padding poisoned; of what is partial random addends.
std::vector<Literal> shards_of_leaf(const Literal& whole, const Sharding& sharding, std::int64_t devices, double unit,
                                    std::uint64_t seed) {
  std::vector<Literal> out(static_cast<std::size_t>(devices), whole);
  if (!whole.type().is_array()) return out;
  std::vector<Literal> addends{whole};
  if (sharding.is_partial()) addends = random_addends(whole, sharding, unit, seed);
  const Sharding cut = sharding.without_partial();
  for (std::int64_t device = 0; device < devices; ++device) {
    const auto coordinate =
        sharding.is_partial() ? sharding.mesh.coordinate(sharding.mesh.position_of(device), sharding.partial) : 0;
    at(out, device) = take_shard(at(addends, coordinate), cut, device);
    poison_padding(at(out, device), whole.type(), sharding, device);
  }
  return out;
}

double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::kF16: return 0x1p-10;
    case DType::kBF16: return 0x1p-7;
    case DType::kF32: return 0x1p-23;
    default: return 0x1p-52;
  }
}

// That of the narrowest type any value of the program has: results are no better for being widened at the end.
double epsilon_of(const Program& program) {
  double most = 0;
  for (const auto& computation : program.computations)
    for (const auto& instruction : computation->instructions)
      for (const auto& leaf : instruction.type.leaves())
        if (leaf.is_array() && is_float(real_dtype(leaf.dtype())))
          most = std::max(most, epsilon_of(real_dtype(leaf.dtype())));
  return most;
}

// Sums in another order: a few hundred roundings at the size of the largest value met.
double bound_at(double expected, double magnitude, double epsilon) {
  return epsilon * 256 * (std::fabs(expected) + magnitude + 0x1p-20);
}

// How far the difference is within its bound; above 1 is a failure.
double share_of_bound(double expected, double actual, double magnitude, double epsilon) {
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) == std::isnan(actual) ? 0 : 2;
  if (expected == actual) return 0;
  if (std::isinf(expected) || std::isinf(actual)) return 2;
  return std::fabs(expected - actual) / bound_at(expected, magnitude, epsilon);
}

std::string index_text(const Dims& dims, std::int64_t i) {
  Dims index(dims.size());
  for (int d = isize(dims) - 1; d >= 0; --d) {
    at(index, d) = i % at(dims, d);
    i /= at(dims, d);
  }
  return "[" + join(index, ",") + "]";
}

// `magnitude`: of what the value is a sum of.
void compare(const Literal& want, const Literal& have, const std::string& what, double epsilon, double magnitude,
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
    if (is_float(type.dtype()))
      share = share_of_bound(a, b, magnitude, epsilon);
    else if (element_as_int(expected, i) != element_as_int(actual, i))
      share = 2;
    report.worst = std::max(report.worst, share);
    if (share <= 1 || ++shown > 3) continue;
    report.failures.push_back(
        fmt::format("{} {} at {}: expected {}, got {}", what, type.str(), index_text(type.dims(), i), a, b));
  }
  if (shown > 3) report.failures.push_back(fmt::format("{} {}: {} more elements differ", what, type.str(), shown - 3));
}

bool has_half_floats(const Program& program) {
  return std::any_of(program.computations.begin(), program.computations.end(), [](const ComputationRef& computation) {
    return std::any_of(computation->instructions.begin(), computation->instructions.end(),
                       [](const Instruction& i) { return i.type.is_array() && i.type.dtype() == DType::kF16; });
  });
}

// All, or more than half of the results.
bool is_finite_enough(const Literal& result, bool all_of_it) {
  std::int64_t finite = 0;
  std::int64_t all = 0;
  for (const auto& leaf : result.leaves()) {
    if (!leaf.type().is_array() || !is_float(leaf.type().dtype())) continue;
    for (std::int64_t i = 0; i < leaf.type().element_count(); ++i) {
      ++all;
      finite += std::isfinite(element_as_double(leaf, i)) ? 1 : 0;
    }
  }
  return all_of_it ? finite == all : finite * 2 >= all;
}

}  // namespace

std::vector<Literal> seeded_arguments(const Program& program, std::uint64_t seed, double scale) {
  Draws draws(seed, scale);
  std::vector<Literal> out;
  for (const auto& type : program.entry_computation().parameter_types()) out.push_back(draw_literal(type, draws));
  return out;
}

namespace {

struct Inputs {
  std::vector<Literal> arguments;
  Literal expected;
  std::vector<double> magnitudes;  // by leaf of the result: of what it is a sum of
  double unit = 0;                 // partial arguments are multiples of it
};

// Arguments that come as addends, in units.
void make_divisible(std::vector<Literal>& arguments, const Computation& global, double unit) {
  for (int p = 0; p < isize(arguments); ++p) {
    const Shardings& shardings = *global[at(global.parameters, p)].sharding;
    std::size_t leaf = 0;
    at(arguments, p) = with_leaves(at(arguments, p), [&](const Literal& array) {
      return shardings[leaf++].is_partial() && array.type().is_array() ? in_units(array, unit) : array;
    });
  }
}

// A program with (normalised) manual regions runs on all devices, each of which has every argument whole.
Literal evaluate_global(const Program& program, const std::vector<Literal>& arguments, const EvaluateOptions& options) {
  if (!has_manual_regions(program)) return evaluate(program, arguments, options);
  const std::vector<std::vector<Literal>> everywhere(static_cast<std::size_t>(program.num_partitions), arguments);
  return evaluate_lockstep(program, everywhere, options).front();
}

// Drawn again while most results are not finite; smaller while any is not, where sums may leave the range of f16 in one order only.
// `global`: the entry with all its shardings.
Inputs draw_inputs(const Program& text, const Computation& global, const CheckOptions& options, CheckReport& report) {
  const Program given = make_synchronous(text);
  const Program program = without_replica_collectives(has_manual_regions(given) ? normalize_manual(given) : given);
  std::set<std::string> stopped;
  EvaluateOptions how;
  how.trip_limit = options.trip_limit;
  how.stopped_loops = options.run ? nullptr : &stopped;
  const bool small_range = has_half_floats(program);
  double scale = 1;
  Inputs out;
  constexpr int kMostDraws = 5;
  for (;; ++report.input_draws) {
    const std::size_t seed = report.input_draws == 1
                                 ? options.seed
                                 : hash_mix(options.seed, static_cast<std::size_t>(report.input_draws - 1));
    stopped.clear();
    Magnitudes magnitudes(program);
    how.observe = [&](std::int64_t, const Computation& computation, Id id, const Literal& value) {
      magnitudes.observe(computation, id, value);
    };
    out.arguments = seeded_arguments(program, seed, scale);
    out.unit = unit_of(scale);
    make_divisible(out.arguments, global, out.unit);
    out.expected = evaluate_global(program, out.arguments, how);
    out.magnitudes.clear();
    for (int leaf = 0; leaf < out.expected.type().leaf_count(); ++leaf)
      out.magnitudes.push_back(magnitudes.of_result(leaf));
    if (is_finite_enough(out.expected, small_range) || report.input_draws == kMostDraws) break;
    if (small_range) scale /= 4;
  }
  for (const std::string& name : stopped)
    report.stopped_loops.push_back(fmt::format("while %{}, global program", name));
  return out;
}

// [device][parameter]
std::vector<std::vector<Literal>> shards_of(const Inputs& inputs, const Computation& global, std::int64_t devices,
                                            std::uint64_t seed) {
  std::vector<std::vector<Literal>> shards(static_cast<std::size_t>(devices));
  for (int p = 0; p < isize(inputs.arguments); ++p) {
    const Literal& argument = at(inputs.arguments, p);
    const Shardings& shardings = *global[at(global.parameters, p)].sharding;
    std::vector<std::vector<Literal>> by_leaf;
    for (const Literal& whole : argument.leaves())
      by_leaf.push_back(shards_of_leaf(whole, at(shardings, isize(by_leaf)), devices, inputs.unit,
                                       hash_mix(seed, static_cast<std::size_t>(p) * 1024U + by_leaf.size())));
    for (std::int64_t device = 0; device < devices; ++device) {
      std::size_t leaf = 0;
      at(shards, device).push_back(with_leaves(argument, [&](const Literal&) { return at(by_leaf[leaf++], device); }));
    }
  }
  return shards;
}

// In lockstep, padding poisoned behind every instruction.
std::vector<Literal> run_poisoned(const Program& program, const std::vector<std::vector<Literal>>& shards,
                                  const CheckOptions& options, CheckReport& report) {
  std::set<std::string> stopped;
  EvaluateOptions how;
  how.trip_limit = options.trip_limit;
  how.stopped_loops = &stopped;
  how.observe = observe;
  auto results = evaluate_lockstep(program, shards, how);
  for (const std::string& name : stopped)
    report.stopped_loops.push_back(fmt::format("while %{}, partitioned program", name));
  return results;
}

void note_loose_bound(const Literal& want, const std::string& what, double epsilon, double magnitude,
                      CheckReport& report) {
  const Literal values = want.as_reals();
  if (!is_float(values.type().dtype())) return;
  double largest = 0;
  for (std::int64_t i = 0; i < values.type().element_count(); ++i)
    if (const double value = std::fabs(element_as_double(values, i)); std::isfinite(value))
      largest = std::max(largest, value);
  const double bound = bound_at(largest, magnitude, epsilon);
  if (largest > 0 && bound > largest)
    report.loosely_compared.push_back(
        fmt::format("{} {}: {:.3g} at values up to {:.3g}", what, want.type().str(), bound, largest));
}

void compare_leaf(const Literal& want, const Sharding& given, const std::vector<Literal>& shards,
                  const std::string& what, double epsilon, double magnitude, CheckReport& report) {
  note_loose_bound(want, what, epsilon, magnitude, report);
  const Sharding sharding = given.without_partial();
  const std::vector<Literal> pieces = reduced_shards(given, shards);
  compare(want, assemble(want.type(), sharding, pieces), what, epsilon, magnitude, report);
  if (!is_even(want.type(), sharding)) return;
  // Replicas must agree with the value, not only the first of them.
  const bool has_owner = sharding.kind == Sharding::Kind::kMaximal;  // the value is undefined on all others
  for (int device = 0; device < isize(pieces); ++device)
    if (!has_owner || device == sharding.device)
      compare(take_shard(want, sharding, device), at(pieces, device), fmt::format("{} on device {}", what, device),
              epsilon, magnitude, report);
}

}  // namespace

CheckReport check_partition(const Program& program, const CheckOptions& options) {
  return check_partitioned(program, partition(program, {.keep_shardings = !options.run}), options);
}

CheckReport check_partitioned(const Program& program, const Partitioned& parts, const CheckOptions& options) {
  CheckReport report;
  const auto& global = parts.global.entry_computation();
  const Inputs inputs = draw_inputs(program, global, options, report);
  const auto shards = shards_of(inputs, global, program.num_partitions, options.seed);
  const auto results =
      options.run ? options.run(parts.program, shards) : run_poisoned(parts.program, shards, options, report);

  const double epsilon = epsilon_of(program);
  const auto expected_leaves = inputs.expected.leaves();
  const auto& shardings = *global[global.root].sharding;
  for (int leaf = 0; leaf < isize(expected_leaves); ++leaf) {
    if (!at(expected_leaves, leaf).type().is_array()) continue;
    std::vector<Literal> pieces;
    for (const auto& result : results) pieces.push_back(at(result.leaves(), leaf));
    compare_leaf(at(expected_leaves, leaf), at(shardings, leaf), pieces, fmt::format("result {}", leaf), epsilon,
                 at(inputs.magnitudes, leaf), report);
  }
  report.passed = report.failures.empty();
  return report;
}

}  // namespace tessera
