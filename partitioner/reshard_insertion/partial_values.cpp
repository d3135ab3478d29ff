// SPDX-License-Identifier: Apache-2.0
#include "tessera/partitioner/reshard_insertion/partial_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/base/text.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/structural.h"
#include "tessera/sharding/placement.h"

namespace tessera {
namespace {

class ShardDraws {
 public:
  explicit ShardDraws(std::uint64_t seed) : seed_(seed) {}
  std::size_t below(std::size_t limit) { return hash_mix(seed_, ++count_) / 7U % limit; }

 private:
  std::size_t seed_;
  std::size_t count_ = 0;
};

template <class T>
T plus(T a, T b) {
  if constexpr (is_complex(kDTypeOf<T>))
    return a + b;
  else if constexpr (is_float(kDTypeOf<T>))
    return T(static_cast<double>(a) + static_cast<double>(b));
  else
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

template <class T>
T negative(T a) {
  if constexpr (is_complex(kDTypeOf<T>))
    return -a;
  else if constexpr (is_float(kDTypeOf<T>))
    return T(-static_cast<double>(a));
  else
    return static_cast<T>(std::uint64_t{0} - static_cast<std::uint64_t>(a));
}

constexpr int kUnits = 8;  // the largest amount that a partial value takes from another

template <class T>
T drawn(ShardDraws& draws, double unit) {
  const auto count = static_cast<int>(draws.below(kUnits)) + 1;
  if constexpr (is_complex(kDTypeOf<T>))
    return T(drawn<typename T::value_type>(draws, unit), drawn<typename T::value_type>(draws, unit));
  else if constexpr (is_float(kDTypeOf<T>))
    return T(count * unit);
  else
    return static_cast<T>(count);
}

// One partial value gets the value; then random amounts are moved between partial values.
template <class T>
void split(std::span<const T> values, std::vector<std::span<T>>& partial_values, double unit, ShardDraws& draws) {
  constexpr int kTransfers = 4;
  for (std::size_t i = 0; i < values.size(); ++i) {
    partial_values[draws.below(partial_values.size())][i] = values[i];
    for (int transfer = 0; transfer < kTransfers && partial_values.size() > 1; ++transfer) {
      const std::size_t from = draws.below(partial_values.size());
      const std::size_t to = (from + 1 + draws.below(partial_values.size() - 1)) % partial_values.size();
      const T moved = drawn<T>(draws, unit);
      partial_values[from][i] = plus(partial_values[from][i], negative(moved));
      partial_values[to][i] = plus(partial_values[to][i], moved);
    }
  }
}

bool splits(DType dtype, Reduction reduction) {
  return reduction == Reduction::kSum && dtype != DType::kPred && !is_narrow(dtype);
}

Literal stacked(const std::vector<Literal>& parts) {
  Dims dims{isize(parts)};
  const Type& type = parts.front().type();
  dims.insert(dims.end(), type.dims().begin(), type.dims().end());
  Literal out(Type::array(type.dtype(), std::move(dims)));
  auto next = out.mutable_bytes().begin();
  for (const Literal& part : parts) next = std::copy(part.bytes().begin(), part.bytes().end(), next);
  return out;
}

}  // namespace

std::string unreduced_text(const Sharding& sharding) {
  if (!sharding.is_partial()) return "";
  std::vector<std::string> axes;
  for (const AxisRef& axis : sharding.partial) axes.push_back(sharding.mesh.axis_text(axis));
  const bool is_sum = sharding.reduction == Reduction::kSum;
  return fmt::format("unreduced{} over {}", is_sum ? "" : fmt::format(" ({})", reduction_name(sharding.reduction)),
                     fmt::join(axes, "+"));
}

std::vector<Literal> random_partial_values(const Literal& value, const Sharding& sharding, double unit,
                                           std::uint64_t seed) {
  const auto count = static_cast<std::size_t>(axes_size(sharding.partial));
  ShardDraws draws(seed);
  const DType dtype = value.type().dtype();
  std::vector<Literal> out;
  if (!splits(dtype, sharding.reduction)) {
    Sharding full_on_one = Sharding::replicated(sharding.mesh, value.type().ndim());
    full_on_one.partial = sharding.partial;
    full_on_one.reduction = sharding.reduction;
    const auto group = sharding.mesh.groups(sharding.partial).front();
    for (const std::int64_t device : group) out.push_back(take_shard(value, full_on_one, device));
    std::rotate(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(draws.below(count)), out.end());
    return out;
  }
  for (std::size_t k = 0; k < count; ++k) out.emplace_back(value.type());
  visit_any_dtype(dtype, [&]<class T>() {
    if constexpr (kDTypeOf<T> != DType::kPred) {
      std::vector<std::span<T>> partial_values;
      for (Literal& partial_value : out) partial_values.push_back(partial_value.mutable_data<T>());
      split(value.data<T>(), partial_values, unit, draws);
    }
  });
  return out;
}

Literal in_units(const Literal& value, double unit) {
  Literal out = value;
  if (is_narrow(value.type().dtype())) return out;
  const auto rounded = [&](double x) {
    return std::copysign(std::max(std::round(std::fabs(x) / unit), 1.0) * unit, x);
  };
  visit_any_dtype(value.type().dtype(), [&]<class T>() {
    for (auto& element : out.mutable_data<T>()) {
      if constexpr (is_complex(kDTypeOf<T>)) {
        using Part = typename T::value_type;
        element = T(static_cast<Part>(rounded(element.real())), static_cast<Part>(rounded(element.imag())));
      } else if constexpr (is_float(kDTypeOf<T>)) {
        element = T(rounded(static_cast<double>(element)));
      }
    }
  });
  return out;
}

std::vector<Literal> reduced_shards(const Sharding& sharding, const std::vector<Literal>& shards) {
  if (!sharding.is_partial()) return shards;
  const Mesh& mesh = sharding.mesh;
  ProgramBuilder program("reduced");
  Builder entry = program.computation("main");
  Dims dims{axes_size(sharding.partial)};
  const Type& local = shards.front().type();
  dims.insert(dims.end(), local.dims().begin(), local.dims().end());
  const Value all = ops::parameter(entry, 0, Type::array(local.dtype(), std::move(dims)));
  const Value sum = ops::reduce(all, sharding.reduction, {0});
  const Program reduce = program.finish(program.add(std::move(entry), sum));
  std::vector<Literal> out(shards.size());
  for (const auto& group : mesh.groups(sharding.partial)) {
    std::vector<Literal> partial_values;
    for (const std::int64_t device : group) partial_values.push_back(at(shards, device));
    const Literal value = evaluate(reduce, {stacked(partial_values)});
    for (const std::int64_t device : group) at(out, device) = value;
  }
  return out;
}

}  // namespace tessera
