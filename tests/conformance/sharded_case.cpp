// SPDX-License-Identifier: Apache-2.0
#include "conformance/sharded_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tessera/ops/contraction.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/structural.h"
#include "tessera/sharding/placement.h"

namespace tessera::conformance {
namespace {

// Returns the axes of one dim, from major to minor, or nothing if they do not shard it evenly along its factors.
std::optional<std::vector<AxisRef>> dim_axes(const DimFactors& factors, const FactorMap& map,
                                             const FactorSharding& split) {
  std::vector<AxisRef> out;
  bool used_up = true;
  for (const int f : factors) {
    const auto& axes = at(split, f);
    const std::int64_t size = at(map.factors, f).size;
    if (axes.empty()) {
      used_up &= size == 1;
      continue;
    }
    if (!used_up || (factors.size() > 1 && size % axes_size(axes) != 0)) return std::nullopt;
    used_up = axes_size(axes) == size;
    out.insert(out.end(), axes.begin(), axes.end());
  }
  return out;
}

std::optional<Sharding> tensor_sharding(const Type& type, const TensorFactors& tensor, const FactorMap& map,
                                        const FactorSharding& split, const Mesh& mesh) {
  Sharding out = Sharding::replicated(mesh, type.ndim());
  for (std::size_t d = 0; d < tensor.size(); ++d) {
    auto axes = dim_axes(tensor[d], map, split);
    if (!axes) return std::nullopt;
    out.dims[d].axes = std::move(*axes);
  }
  return out;
}

// If a dim merges several factors, the shards agree with those of dims that have one of these factors only if the
// factors are sharded evenly.
bool splits_evenly_where_merged(const FactorMap& map, const FactorSharding& split) {
  std::vector<bool> merged(map.factors.size(), false);
  for (const auto* tensors : {&map.operands, &map.results})
    for (const auto& tensor : *tensors)
      for (const auto& dim : tensor)
        for (const int f : dim)
          merged[static_cast<std::size_t>(f)] = merged[static_cast<std::size_t>(f)] || dim.size() > 1;
  for (std::size_t f = 0; f < merged.size(); ++f)
    if (merged[f] && map.factors[f].size % axes_size(split[f]) != 0) return false;
  return true;
}

Literal identity_filled(const Type& type, Reduction reduction) {
  const Literal identity = reduction_identity(reduction, type.dtype());
  Literal out(type);
  const auto from = identity.bytes();
  auto to = out.mutable_bytes();
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = from[i % from.size()];
  return out;
}

// Copies element i of one literal to the other.
void copy_element(const Literal& from, Literal& to, std::int64_t i) {
  const auto size = static_cast<std::size_t>(dtype_size(to.type().dtype()));
  const auto source = from.bytes();
  auto target = to.mutable_bytes();
  for (std::size_t b = 0; b < size; ++b)
    target[static_cast<std::size_t>(i) * size + b] = source[static_cast<std::size_t>(i) * size + b];
}

// Calls f(local element, for each dim whether the element is padding).
template <class F>
void for_each_local(const Placement& placement, std::int64_t device, const Type& local, F&& f) {
  std::int64_t element = 0;
  for_each_index(local.dims(), [&](const Dims& index) {
    std::vector<bool> beyond;
    for (int d = 0; d < local.ndim(); ++d) beyond.push_back(at(index, d) >= placement.interval(device, d).size());
    f(element++, beyond);
  });
}

double combine(Reduction reduction, double a, double b) {
  switch (reduction) {
    case Reduction::kSum: return a + b;
    case Reduction::kProduct: return a * b;
    case Reduction::kMin: return std::isnan(a) || std::isnan(b) ? a + b : std::min(a, b);
    case Reduction::kMax: return std::isnan(a) || std::isnan(b) ? a + b : std::max(a, b);
    case Reduction::kAnd: return static_cast<double>(static_cast<std::int64_t>(a) & static_cast<std::int64_t>(b));
    case Reduction::kOr: break;
  }
  return static_cast<double>(static_cast<std::int64_t>(a) | static_cast<std::int64_t>(b));
}

double tolerance(DType dtype) {
  switch (dtype) {
    case DType::kF64: return 1e-12;
    case DType::kF32: return 1e-5;
    case DType::kF16: return 1e-2;
    case DType::kBF16: return 5e-2;
    default: return 0;
  }
}

// Wraps a sum that exceeds the range of an integer type.
double wrapped(DType dtype, double x) {
  if (is_float(dtype) || dtype == DType::kPred) return x;
  return element_as_double(visit_dtype(dtype,
                                       [&]<class T>() {
                                         if constexpr (is_float(kDTypeOf<T>))
                                           return Literal::scalar<T>(T{});
                                         else
                                           return Literal::scalar<T>(static_cast<T>(static_cast<std::int64_t>(x)));
                                       }),
                           0);
}

bool same_element(const Literal& a, const Literal& b, std::int64_t i) {
  if (!is_float(a.type().dtype())) return element_as_int(a, i) == element_as_int(b, i);
  const double x = element_as_double(a, i);
  const double y = element_as_double(b, i);
  return x == y || (std::isnan(x) && std::isnan(y));
}

bool near(double a, double b, double relative) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::fabs(a - b) <= relative * (1 + std::fabs(a) + std::fabs(b));
}

// Returns partial values for `count` devices, whose `reduction` is the value (for floats up to rounding).
std::vector<Literal> random_parts(const Literal& full, Reduction reduction, std::int64_t count, unsigned seed) {
  if (is_complex(full.type().dtype())) {
    std::vector<Literal> parts;
    for (const Literal& reals : random_parts(full.as_reals(), reduction, count, seed)) {
      Literal part(full.type());
      std::copy(reals.bytes().begin(), reals.bytes().end(), part.mutable_bytes().begin());
      parts.push_back(std::move(part));
    }
    return parts;
  }
  std::vector<Literal> parts(static_cast<std::size_t>(count), full);
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> draw(-2, 2);
  visit_dtype(full.type().dtype(), [&]<class T>() {
    using Wide = std::conditional_t<is_float(kDTypeOf<T>), double, std::int64_t>;
    const auto value = full.data<T>();
    for (std::size_t i = 0; i < value.size(); ++i) {
      const auto owner = static_cast<std::size_t>(engine() % static_cast<unsigned>(count));
      auto rest = static_cast<Wide>(value[i]);
      for (std::size_t k = 0; k < parts.size(); ++k) {
        if (k == owner) continue;
        auto other = static_cast<Wide>(draw(engine) * 4);
        const auto full_value = static_cast<Wide>(value[i]);
        if (reduction == Reduction::kMin) other = full_value + std::abs(other);
        if (reduction == Reduction::kMax) other = full_value - std::abs(other);
        if constexpr (!is_float(kDTypeOf<T>)) {
          if (is_unsigned_int(kDTypeOf<T>) && other < 0) other = reduction == Reduction::kSum ? -other : full_value;
          if (reduction == Reduction::kAnd) other = full_value | other;
          if (reduction == Reduction::kOr) other = full_value & other;
          if (kDTypeOf<T> == DType::kPred)
            other = reduction == Reduction::kMin || reduction == Reduction::kAnd
                        ? full_value | (engine() & 1)
                        : full_value & static_cast<Wide>(engine() & 1);
        }
        const T rounded = static_cast<T>(other);
        parts[k].mutable_data<T>()[i] = rounded;
        if (reduction == Reduction::kSum) rest -= static_cast<Wide>(rounded);
      }
      parts[owner].mutable_data<T>()[i] = static_cast<T>(rest);
    }
  });
  return parts;
}

}  // namespace

std::string text_of(const std::vector<Sharding>& shardings) {
  std::vector<std::string> out;
  for (const auto& sharding : shardings) out.push_back(sharding.str());
  return fmt::format("{}", fmt::join(out, " "));
}

std::optional<OpShardings> shard_by_factors(const OpView& view, const FactorMap& map, const FactorSharding& split,
                                            const Mesh& mesh) {
  if (!splits_evenly_where_merged(map, split)) return std::nullopt;
  OpShardings out;
  for (std::size_t i = 0; i < view.operands.size(); ++i) {
    auto sharding = tensor_sharding(view.operands[i], map.operands[i], map, split, mesh);
    if (!sharding) return std::nullopt;
    out.operands.push_back(std::move(*sharding));
  }
  const auto has = [](const TensorFactors& result, int factor) {
    return std::any_of(result.begin(), result.end(), [factor](const DimFactors& dim) {
      return std::find(dim.begin(), dim.end(), factor) != dim.end();
    });
  };
  const auto leaves = view.result.leaves();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    auto sharding = tensor_sharding(leaves[i], map.results[i], map, split, mesh);
    if (!sharding) return std::nullopt;
    for (std::size_t f = 0; f < split.size(); ++f)
      if (map.factors[f].kind == FactorKind::kReduce && !has(map.results[i], static_cast<int>(f)))
        sharding->partial.insert(sharding->partial.end(), split[f].begin(), split[f].end());
    sharding->reduction = map.reduction;
    out.results.push_back(std::move(*sharding));
  }
  return out;
}

OpShardings partial_shardings(const OpView& view, const std::vector<int>& partial, Reduction reduction,
                              const std::vector<AxisRef>& axes, const Mesh& mesh) {
  OpShardings out;
  for (const auto& operand : view.operands) out.operands.push_back(Sharding::replicated(mesh, operand.ndim()));
  for (const auto& leaf : view.result.leaves()) out.results.push_back(Sharding::replicated(mesh, leaf.ndim()));
  const auto mark = [&](Sharding& sharding) {
    sharding.partial = axes;
    sharding.reduction = reduction;
  };
  for (const int i : partial) mark(at(out.operands, i));
  for (auto& result : out.results) mark(result);
  return out;
}

SubjectCase::SubjectCase(const Sample& sample, unsigned seed)
    : SubjectCase(program_of(sample), random_arguments(sample, seed)) {}

SubjectCase::SubjectCase(SampleProgram made, const std::vector<Literal>& arguments)
    : program(std::move(made.program)),
      subject(&program.entry_computation()[made.subject]),
      view(view_of(program, program.entry_computation(), *subject)) {
  const Computation& main = program.entry_computation();
  std::vector<Literal> values(main.instructions.size());
  EvaluateOptions options;
  options.observe = [&](std::int64_t, const Computation& computation, Id id, const Literal& value) {
    if (&computation == &main) at(values, id) = value;
  };
  evaluate(program, arguments, options);
  for (const Id operand : subject->operands) operands.push_back(at(values, operand));
  expected = at(values, static_cast<Id>(subject - main.instructions.data()));
}

Shards SubjectCase::shards_of(const OpShardings& shardings, const FactorMap& map) const {
  Shards out;
  const std::int64_t devices = shardings.results.front().mesh.device_count();
  for (std::int64_t device = 0; device < devices; ++device) {
    std::vector<Literal> row;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Type& global = operands[i].type();
      // Sets all bits: NaN, -1, the largest unsigned number. Ops that mask padding themselves get valid indices (0), so
      // that missing masks change the result.
      const bool looks_right = view.op.masks_padding && is_integer(global.dtype());
      const unsigned char poison = looks_right ? 0 : global.dtype() == DType::kPred ? 1 : 0xff;
      Literal local = take_shard(operands[i], shardings.operands[i], device, poison);
      const Literal mask = identity_filled(local.type(), map.reduction);
      const Placement placement = placement_of(global, shardings.operands[i]);
      for_each_local(placement, device, local.type(), [&](std::int64_t element, const std::vector<bool>& beyond) {
        for (std::size_t d = 0; d < beyond.size(); ++d)
          if (beyond[d] && !view.op.masks_padding &&
              at(map.factors, map.operands[i][d].front()).kind == FactorKind::kReduce)
            copy_element(mask, local, element);
      });
      row.push_back(std::move(local));
    }
    out.push_back(std::move(row));
  }
  return out;
}

Shards SubjectCase::partial_shards(const OpShardings& shardings) const {
  const Mesh& mesh = shardings.results.front().mesh;
  Shards out(static_cast<std::size_t>(mesh.device_count()));
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Sharding& sharding = shardings.operands[i];
    const auto count = sharding.is_partial() ? axes_size(sharding.partial) : 1;
    const auto parts = sharding.is_partial()
                           ? random_parts(operands[i], sharding.reduction, count, 17 + static_cast<unsigned>(i))
                           : std::vector<Literal>{operands[i]};
    for (std::int64_t device = 0; device < mesh.device_count(); ++device)
      at(out, device).push_back(at(parts, mesh.coordinate(mesh.position_of(device), sharding.partial)));
  }
  return out;
}

Literal SubjectCase::run_device(const OpShardings& shardings, std::int64_t device,
                                const std::vector<Literal>& local) const {
  ProgramBuilder built(program);
  Builder main = built.computation("local");
  std::vector<Value> values;
  for (int i = 0; i < isize(local); ++i) values.push_back(ops::parameter(main, i, at(local, i).type()));
  std::vector<Type> results;
  const auto leaves = view.result.leaves();
  for (std::size_t i = 0; i < leaves.size(); ++i) results.push_back(shard_type(leaves[i], shardings.results[i]));
  const Mesh& mesh = shardings.results.front().mesh;
  const auto coordinate = [&](const std::vector<AxisRef>& axes) {
    return mesh.coordinate(mesh.position_of(device), axes);
  };
  const auto number = [&](std::int64_t value) { return ops::scalar(main, DType::kS32, static_cast<double>(value)); };
  LocalizeContext context{main,
                          view,
                          values,
                          shardings.operands,
                          shardings.results,
                          results,
                          nullptr,
                          subject->called,
                          [&](const Sharding& sharding, int dim, std::int64_t size) {
                            const auto& axes = at(sharding.dims, dim).axes;
                            return number(coordinate(axes) * ceil_div(size, axes_size(axes)));
                          },
                          [&](const std::vector<AxisRef>& axes) { return number(coordinate(axes)); }};
  const Value root = view.op.localize != nullptr
                         ? view.op.localize(context)
                         : main.emit(view.op, values, view.attributes, {.called = subject->called});
  const Type local_type = view.result.is_tuple() ? Type::tuple(results) : results.front();
  require(root.type() == local_type, "the local op gives {}, the shard is {}", root.type().str(), local_type.str());
  const ComputationId entry = built.add(std::move(main), root);
  EvaluateOptions options;
  options.partition = device;
  return evaluate(built.finish(entry), local, options);
}

std::string SubjectCase::compare_sharded(const OpShardings& shardings, const Shards& shards) const {
  const Mesh& mesh = shardings.results.front().mesh;
  std::vector<std::vector<Literal>> got;
  try {
    for (std::int64_t device = 0; device < mesh.device_count(); ++device)
      got.push_back(run_device(shardings, device, at(shards, device)).leaves());
    for (auto& row : got)
      for (Literal& leaf : row) leaf = leaf.as_reals();
  } catch (const Error& error) {
    return error.what();
  }
  const auto leaves = expected.leaves();
  double allowed = tolerance(real_dtype(leaves.front().type().dtype()));
  for (const auto& operand : operands) allowed = std::max(allowed, tolerance(real_dtype(operand.type().dtype())));
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    const Sharding& sharding = shardings.results[leaf];
    const Sharding complete = sharding.without_partial();
    const Placement placement = placement_of(leaves[leaf].type(), complete);
    for (const auto& group : mesh.groups(sharding.partial)) {
      const Literal shard = take_shard(leaves[leaf], complete, group.front());
      const Literal want = shard.as_reals();
      std::string wrong;
      const auto compare = [&](std::int64_t element) {
        if (!sharding.is_partial()) {
          if (!same_element(at(got, group.front())[leaf], want, element))
            wrong = fmt::format("device {} element {} differs", group.front(), element);
          return;
        }
        double total = element_as_double(at(got, group.front())[leaf], element);
        for (std::size_t k = 1; k < group.size(); ++k)
          total = combine(sharding.reduction, total, element_as_double(at(got, group[k])[leaf], element));
        const DType dtype = want.type().dtype();
        const double wanted = element_as_double(want, element);
        if (!wrong.empty() || near(wrapped(dtype, total), wanted, allowed)) return;
        wrong = fmt::format("device {} element {}: {} instead of {}", group.front(), element, total, wanted);
      };
      const std::int64_t parts = want.type().ndim() - shard.type().ndim() + 1;  // two for a complex number
      for_each_local(placement, group.front(), shard.type(),
                     [&](std::int64_t element, const std::vector<bool>& beyond) {
                       if (std::find(beyond.begin(), beyond.end(), true) != beyond.end()) return;
                       for (std::int64_t p = 0; p < parts; ++p) compare(element * parts + p);
                     });
      if (!wrong.empty()) return wrong;
    }
  }
  return "";
}

}  // namespace tessera::conformance
