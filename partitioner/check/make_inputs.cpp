// SPDX-License-Identifier: Apache-2.0
#include "check/make_inputs.h"

#include <limits>

#include "tessera/base/text.h"
#include "tessera/ops/elided_constants.h"
#include "tessera/partitioner/check/check.h"
#include "tessera/partitioner/reshard_insertion/partial_values.h"
#include "tessera/sharding/placement.h"
#include "tessera/tensor/narrow_dtype.h"

namespace tessera {
namespace {

// splitmix64, which gives the same numbers on every machine.
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

// For narrow integers, only values that have two bits.
float draw_narrow(DType dtype, Draws& draws) {
  if (!is_narrow_integer(dtype)) return draw<float>(draws);
  const bool is_signed = dtype == DType::kS2 || dtype == DType::kS4;
  return static_cast<float>(draws.next() % 4U) - (is_signed ? 2.0F : 0.0F);
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
      element = static_cast<std::byte>(narrow_bits(type.dtype(), draw_narrow(type.dtype(), draws)));
  else if (type.is_array())
    visit_dtype(type.dtype(), [&]<class T>() {
      for (auto& element : out.mutable_data<T>()) element = draw<T>(draws);
    });
  return out;
}

// Alternates between greatest and least numbers, or true and false, so that no reduction treats all of them as its
// neutral element.
template <class T>
T poison(std::size_t place) {
  if constexpr (is_complex(kDTypeOf<T>))
    return T(std::numeric_limits<typename T::value_type>::quiet_NaN());
  else if constexpr (kDTypeOf<T> == DType::kPred)
    return place % 2 == 0;
  else if constexpr (is_float(kDTypeOf<T>))
    return static_cast<T>(std::numeric_limits<double>::quiet_NaN());
  else
    return place % 2 == 0 ? std::numeric_limits<T>::max() : std::numeric_limits<T>::lowest();
}

// Replaces each array leaf of the value.
template <class F>
Literal with_leaves(const Literal& value, F&& leaf) {
  if (!value.type().is_tuple()) return value.type().is_array() ? leaf(value) : (leaf(value), value);
  std::vector<Literal> elements;
  for (const auto& element : value.elements()) elements.push_back(with_leaves(element, leaf));
  return Literal::tuple(std::move(elements));
}

// By device, with poisoned padding, and random partial values for partial arguments.
std::vector<Literal> shards_of_leaf(const Literal& global, const Sharding& sharding, std::int64_t devices, double unit,
                                    std::uint64_t seed) {
  std::vector<Literal> out(static_cast<std::size_t>(devices), global);
  if (!global.type().is_array()) return out;
  std::vector<Literal> partial_values{global};
  if (sharding.is_partial()) partial_values = random_partial_values(global, sharding, unit, seed);
  const Sharding tiled = sharding.without_partial();
  for (std::int64_t device = 0; device < devices; ++device) {
    const auto coordinate =
        sharding.is_partial() ? sharding.mesh.coordinate(sharding.mesh.position_of(device), sharding.partial) : 0;
    at(out, device) = take_shard(at(partial_values, coordinate), tiled, device);
    poison_padding(at(out, device), global.type(), sharding, device);
  }
  return out;
}

}  // namespace

void poison_padding(Literal& local, const Type& global, const Sharding& sharding, std::int64_t device) {
  if (!sharding.is_tiled() || is_even(global, sharding)) return;
  const Placement placement = placement_of(global, sharding);
  Dims sizes;
  for (int d = 0; d < global.ndim(); ++d) sizes.push_back(placement.interval(device, d).size());
  const auto for_each_outside = [&](auto&& f) {
    std::size_t i = 0;
    for_each_index(local.type().dims(), [&](const Dims& index) {
      bool inside = true;
      for (std::size_t d = 0; d < index.size(); ++d) inside = inside && index[d] < sizes[d];
      if (!inside) f(i);
      ++i;
    });
  };
  if (is_narrow(global.dtype())) {
    auto bytes = local.mutable_bytes();
    for_each_outside([&](std::size_t i) { bytes[i] = std::byte{narrow_bits(global.dtype(), i % 2 == 0 ? 1 : -1)}; });
    return;
  }
  visit_any_dtype(global.dtype(), [&]<class T>() {
    auto data = local.mutable_data<T>();
    for_each_outside([&](std::size_t i) { data[i] = poison<T>(i); });
  });
}

void spread_integers(std::vector<Literal>& arguments, std::uint64_t seed) {
  std::int64_t most = 0;
  for (const Literal& argument : arguments)
    for (const Type& leaf : argument.type().leaves())
      for (int d = 0; leaf.is_array() && d < leaf.ndim(); ++d) most = std::max(most, leaf.dim(d));
  Draws draws(hash_mix(seed, 0x51));
  const auto spread = [&](const Literal& given) {
    Literal out = given;
    const DType dtype = given.type().is_array() ? given.type().dtype() : DType::kPred;
    const bool is_index = dtype == DType::kS32 || dtype == DType::kS64 || dtype == DType::kU32 || dtype == DType::kU64;
    if (!is_index || given.type().ndim() == 0) return out;
    visit_dtype(dtype, [&]<class T>() {
      if constexpr (std::is_integral_v<T>) {
        auto elements = out.mutable_data<T>();
        for (std::size_t i = 2; i < elements.size(); i += 3)
          elements[i] = static_cast<T>(draws.next() % static_cast<std::uint64_t>(most + 3));
      }
    });
    return out;
  };
  for (Literal& argument : arguments) argument = with_leaves(argument, spread);
}

double unit_of_partial_values(double scale) { return scale / 8; }

void make_divisible(std::vector<Literal>& arguments, const Computation& global, double unit) {
  for (int p = 0; p < isize(arguments); ++p) {
    const Shardings& shardings = *global[at(global.parameters, p)].sharding;
    std::size_t leaf = 0;
    at(arguments, p) = with_leaves(at(arguments, p), [&](const Literal& array) {
      return shardings[leaf++].is_partial() && array.type().is_array() ? in_units(array, unit) : array;
    });
  }
}

std::vector<std::vector<Literal>> shards_of_arguments(const std::vector<Literal>& arguments, const Computation& global,
                                                      std::int64_t devices, double unit, std::uint64_t seed) {
  std::vector<std::vector<Literal>> shards(static_cast<std::size_t>(devices));
  for (int p = 0; p < isize(arguments); ++p) {
    const Literal& argument = at(arguments, p);
    const Shardings& shardings = *global[at(global.parameters, p)].sharding;
    std::vector<std::vector<Literal>> by_leaf;
    for (const Literal& leaf : argument.leaves())
      by_leaf.push_back(shards_of_leaf(leaf, at(shardings, isize(by_leaf)), devices, unit,
                                       hash_mix(seed, static_cast<std::size_t>(p) * 1024U + by_leaf.size())));
    for (std::int64_t device = 0; device < devices; ++device) {
      std::size_t leaf = 0;
      at(shards, device).push_back(with_leaves(argument, [&](const Literal&) { return at(by_leaf[leaf++], device); }));
    }
  }
  return shards;
}

Program with_drawn_constants(const Program& program, std::uint64_t seed) {
  return with_elided_constants(program, [&](const Type& type, const std::string& origin) {
    Draws draws(hash_mix(seed, hash_text(origin)));
    return draw_literal(type, draws);
  });
}

std::vector<Literal> seeded_arguments(const Program& program, std::uint64_t seed, double scale) {
  Draws draws(seed, scale);
  std::vector<Literal> out;
  for (const auto& type : program.entry_computation().parameter_types()) out.push_back(draw_literal(type, draws));
  return out;
}

}  // namespace tessera
