// SPDX-License-Identifier: Apache-2.0
#include "tile_digits.h"

#include <algorithm>
#include <numeric>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

// The digits of f(0..size-1), where f(i) are offsets; minor to major during the search.
std::optional<Digits> digits_of(const std::vector<std::int64_t>& offsets) {
  const auto size = static_cast<std::int64_t>(offsets.size());
  Digits out;
  for (std::int64_t done = 1; done < size;) {
    const std::int64_t stride = at(offsets, done);
    std::int64_t run = 1;
    while (run * done < size && at(offsets, run * done) == run * stride) ++run;
    if (stride <= 0 || size % (done * run) != 0) return std::nullopt;
    out.push_back({stride, run});
    done *= run;
  }
  std::reverse(out.begin(), out.end());
  for (std::int64_t i = 0; i < size; ++i) {
    std::int64_t rest = i;
    std::int64_t offset = 0;
    for (auto digit = out.rbegin(); digit != out.rend(); ++digit) {
      offset += rest % digit->size * digit->stride;
      rest /= digit->size;
    }
    if (offset != at(offsets, i)) return std::nullopt;
  }
  return out;
}

// Reorders the dims of a row-major array.
std::vector<std::int64_t> transposed(const std::vector<std::int64_t>& values, const Dims& dims,
                                     const std::vector<int>& order) {
  const auto strides = row_major_strides(dims);
  Dims new_dims;
  for (const int d : order) new_dims.push_back(at(dims, d));
  std::vector<std::int64_t> out;
  out.reserve(values.size());
  for_each_index(new_dims, [&](const Dims& index) {
    std::int64_t from = 0;
    for (int k = 0; k < isize(order); ++k) from += at(index, k) * at(strides, at(order, k));
    out.push_back(at(values, from));
  });
  return out;
}

// manual, unreduced, replicated, maximal.
int type_order(SubgroupType type) {
  constexpr int kOrder[] = {2, 0, 1, 3};
  return kOrder[static_cast<int>(type)];
}

// Drops subgroup dims of size 1, sorts the others by type and merges equal types.
void merge_subgroups(HloSharding& leaf) {
  const int data = data_ndim(leaf);
  std::vector<int> subgroups;
  for (int k = 0; k < isize(leaf.subgroup_types); ++k)
    if (at(leaf.tile_dims, data + k) > 1) subgroups.push_back(k);
  std::stable_sort(subgroups.begin(), subgroups.end(), [&](int a, int b) {
    return type_order(at(leaf.subgroup_types, a)) < type_order(at(leaf.subgroup_types, b));
  });
  std::vector<int> order(static_cast<std::size_t>(data));
  std::iota(order.begin(), order.end(), 0);
  Dims dims(leaf.tile_dims.begin(), leaf.tile_dims.begin() + data);
  std::vector<SubgroupType> types;
  for (const int k : subgroups) {
    order.push_back(data + k);
    const auto type = at(leaf.subgroup_types, k);
    if (!types.empty() && types.back() == type) {
      dims.back() *= at(leaf.tile_dims, data + k);
    } else {
      types.push_back(type);
      dims.push_back(at(leaf.tile_dims, data + k));
    }
  }
  for (int k = 0; k < isize(leaf.subgroup_types); ++k)  // size-1 dims last: they have no effect
    if (at(leaf.tile_dims, data + k) == 1) order.push_back(data + k);
  leaf.devices = transposed(leaf.devices, leaf.tile_dims, order);
  leaf.tile_dims = std::move(dims);
  leaf.subgroup_types = std::move(types);
}

void find_iota_form(HloSharding& leaf) {
  leaf.iota_reshape.clear();
  leaf.iota_transpose.clear();
  const auto by_dim = tile_digits(leaf.tile_dims, leaf.devices);
  if (!by_dim) return;
  Digits all;  // in tile order; consecutive digits are merged
  for (const auto& dim : *by_dim)
    for (const auto& digit : dim) {
      if (!all.empty() && all.back().stride == digit.stride * digit.size) {
        all.back() = {digit.stride, all.back().size * digit.size};
      } else {
        all.push_back(digit);
      }
    }
  std::vector<int> order(all.size());  // by decreasing stride: the dims of the iota
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) { return at(all, a).stride > at(all, b).stride; });
  leaf.iota_transpose.resize(all.size());
  for (int k = 0; k < isize(order); ++k) {
    leaf.iota_reshape.push_back(at(all, at(order, k)).size);
    at(leaf.iota_transpose, at(order, k)) = k;
  }
  if (leaf.iota_reshape.size() == 1) leaf.iota_transpose.clear();
}

}  // namespace

std::optional<std::vector<Digits>> tile_digits(const Dims& tile_dims, const std::vector<std::int64_t>& positions) {
  if (positions.empty() || positions.front() != 0) return std::nullopt;
  const auto strides = row_major_strides(tile_dims);
  std::vector<Digits> out;
  std::vector<std::vector<std::int64_t>> offsets;
  for (int d = 0; d < isize(tile_dims); ++d) {
    auto& along = offsets.emplace_back();
    for (std::int64_t i = 0; i < at(tile_dims, d); ++i) along.push_back(at(positions, i * at(strides, d)));
    auto digits = digits_of(along);
    if (!digits) return std::nullopt;
    out.push_back(std::move(*digits));
  }
  for (std::int64_t t = 0; t < static_cast<std::int64_t>(positions.size()); ++t) {
    std::int64_t sum = 0;
    for (int d = 0; d < isize(tile_dims); ++d)
      if (at(tile_dims, d) > 1) sum += at(at(offsets, d), t / at(strides, d) % at(tile_dims, d));
    if (sum != at(positions, t)) return std::nullopt;
  }
  return out;
}

int data_ndim(const HloSharding& leaf) { return isize(leaf.tile_dims) - isize(leaf.subgroup_types); }

SubgroupSizes subgroup_sizes(const HloSharding& leaf) {
  SubgroupSizes out;
  const int data = data_ndim(leaf);
  for (int d = 0; d < data; ++d) out.data *= at(leaf.tile_dims, d);
  for (int k = 0; k < isize(leaf.subgroup_types); ++k) {
    const auto size = at(leaf.tile_dims, data + k);
    const auto type = at(leaf.subgroup_types, k);
    require(type != SubgroupType::kMaximal, "maximal subgroups of devices are not supported");
    (type == SubgroupType::kManual      ? out.manual
     : type == SubgroupType::kUnreduced ? out.unreduced
                                        : out.replicated) *= size;
  }
  return out;
}

void normalize(HloSharding& leaf) {
  merge_subgroups(leaf);
  const int data = data_ndim(leaf);
  const bool no_data =
      std::all_of(leaf.tile_dims.begin(), leaf.tile_dims.begin() + data, [](auto n) { return n == 1; });
  if (no_data && leaf.subgroup_types.size() <= 1) {
    const auto type = leaf.subgroup_types.empty() ? SubgroupType::kReplicated : leaf.subgroup_types.front();
    if (type != SubgroupType::kMaximal) {
      using Kind = HloSharding::Kind;
      HloSharding untiled;
      untiled.kind = type == SubgroupType::kManual      ? Kind::kManual
                     : type == SubgroupType::kUnreduced ? Kind::kUnreduced
                                                        : Kind::kReplicated;
      untiled.suffix = std::move(leaf.suffix);
      leaf = std::move(untiled);
      return;
    }
  }
  if (!leaf.subgroup_types.empty() && leaf.subgroup_types.back() == SubgroupType::kReplicated) {
    const auto size = leaf.tile_dims.back();
    for (auto group = leaf.devices.begin(); group != leaf.devices.end(); group += size) std::sort(group, group + size);
  }
  find_iota_form(leaf);
}

}  // namespace tessera
