// SPDX-License-Identifier: Apache-2.0
#include "partitioner/reshard_planning/reshard_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/long_tests.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/ir/text.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/structural.h"
#include "tessera/partitioner/pipeline/partition.h"

namespace tessera::testing {
namespace {

void place_axes(const Sharding& sharding, int axis, bool with_partial, std::vector<Sharding>& out) {
  if (axis == sharding.mesh.axis_count()) {
    out.push_back(sharding);
    return;
  }
  place_axes(sharding, axis + 1, with_partial, out);
  const AxisRef ref = sharding.mesh.full_axis(axis);
  for (int d = 0; d < sharding.ndim(); ++d)
    for (std::size_t i = 0; i <= at(sharding.dims, d).axes.size(); ++i) {
      Sharding next = sharding;
      auto& axes = at(next.dims, d).axes;
      axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(i), ref);
      place_axes(next, axis + 1, with_partial, out);
    }
  if (!with_partial) return;
  Sharding next = sharding;
  next.partial.push_back(ref);
  place_axes(next, axis + 1, with_partial, out);
}

// Small integers, so that sums and products are exact in every type and order.
Literal numbers(const Type& type, std::int64_t seed) {
  Literal out(type);
  visit_dtype(type.dtype(), [&]<class T>() {
    auto data = out.mutable_data<T>();
    for (std::size_t i = 0; i < data.size(); ++i) {
      const auto value = (static_cast<std::int64_t>(i) * 7 + seed * 13) % 31;
      if constexpr (kDTypeOf<T> == DType::kPred)
        data[i] = value % 3 == 0;
      else
        data[i] = static_cast<T>(static_cast<float>(value));
    }
  });
  return out;
}

template <class T>
T combined(Reduction reduction, T a, T b) {
  if constexpr (std::is_same_v<T, bool>)
    return reduction == Reduction::kAnd ? a && b : a || b;
  else if constexpr (std::is_integral_v<T>) {
    if (reduction == Reduction::kAnd) return static_cast<T>(a & b);
    if (reduction == Reduction::kOr) return static_cast<T>(a | b);
    if (reduction == Reduction::kSum) return static_cast<T>(a + b);
    if (reduction == Reduction::kProduct) return static_cast<T>(a * b);
    return reduction == Reduction::kMin ? std::min(a, b) : std::max(a, b);
  } else {
    const auto x = static_cast<double>(a);
    const auto y = static_cast<double>(b);
    if (std::isnan(x) || std::isnan(y)) return static_cast<T>(std::numeric_limits<double>::quiet_NaN());
    if (reduction == Reduction::kSum) return static_cast<T>(x + y);
    if (reduction == Reduction::kProduct) return static_cast<T>(x * y);
    return static_cast<T>(reduction == Reduction::kMin ? std::min(x, y) : std::max(x, y));
  }
}

Literal combine(Reduction reduction, const Literal& a, const Literal& b) {
  Literal out = a;
  visit_dtype(a.type().dtype(), [&]<class T>() {
    auto data = out.mutable_data<T>();
    const auto more = b.data<T>();
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = combined<T>(reduction, data[i], more[i]);
  });
  return out;
}

// Partial values (one for each coordinate of the partial axes), and the value that they reduce to.
struct Source {
  std::vector<Literal> partial_values;
  Literal value;
};
Source make_source(const Type& global, const Sharding& from) {
  Source out;
  for (std::int64_t c = 0; c < axes_size(from.partial); ++c) {
    out.partial_values.push_back(numbers(global, c));
    out.value = c == 0 ? out.partial_values.back() : combine(from.reduction, out.value, out.partial_values.back());
  }
  return out;
}

std::vector<std::vector<Literal>> source_shards(const Source& source, const Sharding& from) {
  std::vector<std::vector<Literal>> out;
  for (std::int64_t device = 0; device < from.mesh.device_count(); ++device) {
    const auto c = from.mesh.coordinate(from.mesh.position_of(device), from.partial);
    const bool absent = from.kind == Sharding::Kind::kMaximal && device != from.device;
    const Literal& partial_value = at(source.partial_values, c);
    // Memory that must not be read: NaN, -1, and true for bool.
    const std::uint8_t junk = partial_value.type().dtype() == DType::kPred ? 0x01 : 0xFF;
    Literal shard = take_shard(partial_value, from.without_partial(), device, junk);
    if (absent) {
      const auto bytes = shard.mutable_bytes();
      std::fill(bytes.begin(), bytes.end(), std::byte{junk});
    }
    out.push_back({shard});
  }
  return out;
}

// Returns the value of each device's result, where the members of a partial group are reduced.
std::vector<Literal> settled(const std::vector<Literal>& results, const Sharding& to) {
  std::vector<Literal> out = results;
  for (const auto& group : to.mesh.groups(to.partial)) {
    Literal value = at(results, group[0]);
    for (std::size_t i = 1; i < group.size(); ++i) value = combine(to.reduction, value, at(results, group[i]));
    for (const auto device : group) at(out, device) = value;
  }
  return out;
}

std::string compare_shard(const Literal& got, const Literal& want, const Placement& placement, std::int64_t device) {
  if (!(got.type() == want.type()))
    return fmt::format("device {} holds {}, not {}", device, got.type().str(), want.type().str());
  std::string wrong;
  const Dims strides = row_major_strides(want.type().dims());
  for_each_index(want.type().dims(), [&](const Dims& index) {
    std::int64_t flat = 0;
    for (int d = 0; d < isize(index); ++d) {
      if (at(index, d) >= placement.interval(device, d).size()) return;
      flat += at(index, d) * at(strides, d);
    }
    const double a = element_as_double(got, flat);
    const double b = element_as_double(want, flat);
    if (a != b && wrong.empty())
      wrong = fmt::format("device {} has {} at {{{}}}, not {}", device, a, fmt::join(index, ","), b);
  });
  return wrong;
}

Program emit_program(const ReshardPlan& plan) {
  ProgramBuilder program("reshard");
  Builder main = program.computation("main");
  const Value local = ops::parameter(main, 0, shard_type(plan.global, plan.from), "x");
  std::int64_t channel = 1;
  const Value out = ReshardEmitter{main, channel, nullptr}.emit(local, plan);
  program.program().num_partitions = plan.from.mesh.device_count();
  return program.finish(program.add(std::move(main), out));
}

// Replaces the zeros of pads and new buffers by NaN, so that reading them changes the result. (The identity of a sum is
// -0.)
void poison(std::int64_t, const Computation& computation, Id id, Literal& value) {
  const Instruction& instruction = computation[id];
  if (instruction.op->role != Role::kConstant || !value.type().dims().empty() || !is_float(value.type().dtype()))
    return;
  const auto bytes = value.mutable_bytes();
  if (std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; }))
    std::fill(bytes.begin(), bytes.end(), std::byte{0xFF});
}

std::string check_costs(const ReshardPlan& plan, const Program& program) {
  const ProgramStats stats = program_stats(program);
  std::int64_t count = 0;
  for (const auto& kind : stats.collectives) count += kind.count;
  if (stats.total_collective_bytes != plan.bytes())
    return fmt::format("the program moves {} bytes", stats.total_collective_bytes);
  return count == plan.collectives() ? "" : fmt::format("the program has {} collectives", count);
}

std::string check_values(const ReshardPlan& plan, const Program& program) {
  const Source source = make_source(plan.global, plan.from);
  EvaluateOptions options;
  options.observe = poison;
  const auto results = settled(evaluate_lockstep(program, source_shards(source, plan.from), options), plan.to);
  const Placement placement = placement_of(plan.global, plan.to.without_partial());
  for (std::int64_t device = 0; device < isize(results); ++device) {
    const Literal want = take_shard(source.value, plan.to.without_partial(), device);
    if (auto wrong = compare_shard(at(results, device), want, placement, device); !wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace

std::vector<Sharding> all_shardings(const Mesh& mesh, int ndim, bool with_partial, Reduction reduction) {
  std::vector<Sharding> out;
  Sharding none = Sharding::replicated(mesh, ndim);
  place_axes(none, 0, with_partial, out);
  for (Sharding& sharding : out)
    if (sharding.is_partial()) sharding.reduction = reduction;
  return out;
}

std::string check_reshard(const Type& global, const Sharding& from, const Sharding& to, const Topology& topology) {
  const ReshardPlan plan = plan_reshard(global, from, to, topology);
  std::string wrong;
  try {
    const Program program = emit_program(plan);
    verify(program);
    wrong = check_costs(plan, program);
    if (wrong.empty()) wrong = check_values(plan, program);
  } catch (const Error& error) {
    wrong = error.what();
  }
  if (wrong.empty()) return wrong;
  return fmt::format("{} {} of {} -> {} of {}: {} [{}; {} B]", global.str(), from.str(), from.mesh.str(), to.str(),
                     to.mesh.str(), wrong, plan.str(), plan.bytes());
}

std::size_t stride_of(std::size_t cases, std::size_t wanted) {
  if (long_tests()) return 1;
  return std::max<std::size_t>(1, cases / wanted) | 1U;
}

}  // namespace tessera::testing
