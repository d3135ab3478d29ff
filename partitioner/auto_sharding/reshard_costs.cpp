// SPDX-License-Identifier: Apache-2.0
#include "auto_sharding/reshard_costs.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "tessera/base/text.h"
#include "tessera/partitioner/reshard_planning/plan_reshard.h"

namespace tessera {
namespace {

// The different numbers of a list, and the place of each entry among them.
struct Numbered {
  explicit Numbered(const std::vector<int>& list) {
    std::map<int, int> found;
    for (const int id : list) {
      const auto [entry, is_new] = found.try_emplace(id, isize(ids));
      if (is_new) ids.push_back(id);
      places.push_back(entry->second);
    }
  }
  std::vector<int> ids;
  std::vector<int> places;
};

}  // namespace

ReshardCosts::ReshardCosts(const Mesh& mesh, const MachineModel& machine) : mesh_(mesh), machine_(machine) {
  const auto link = [&](const MeshAxis& axis) { return machine.links().link(axis.name); };
  for (const MeshAxis& axis : mesh.axes()) {
    const auto first = std::find_if(mesh.axes().begin(), mesh.axes().end(), [&](const MeshAxis& other) {
      return other.size == axis.size && link(other) == link(axis);
    });
    alike_.push_back(static_cast<int>(first - mesh.axes().begin()));
    if (axis.size > 1) ++axis_count_;
  }
}

std::vector<double> ReshardCosts::table(const Type& type, const std::vector<int>& from, const std::vector<int>& to) {
  const Numbered rows(from);
  const Numbered columns(to);
  std::vector<double> different;
  for (const int a : rows.ids)
    for (const int b : columns.ids) different.push_back(seconds(type, a, b));
  if (std::all_of(different.begin(), different.end(), [](double x) { return x == 0; })) return {};
  std::vector<double> out;
  out.reserve(from.size() * to.size());
  for (const int a : rows.places)
    for (const int b : columns.places) out.push_back(at(different, a * isize(columns.ids) + b));
  return out;
}

double ReshardCosts::seconds(const Type& type, int from, int to) {
  if (from == to) return 0;
  const std::vector key{types_.id_of(type), from, to};
  if (const auto known = by_type_.find(key); known != by_type_.end()) return known->second;
  const std::optional<double> of_kind = seconds_of_kind(type, from, to);
  const double out = of_kind ? *of_kind : seconds_of_type(type, from, to);
  by_type_.emplace(key, out);
  return out;
}

double ReshardCosts::planned_seconds(const Type& type, const Sharding& from, const Sharding& to) {
  ++planned_;
  return machine_.seconds_of_moved(reshard_cost(type, from, to, machine_.links()));
}

// If the sizes of the dims matter, only the names of the axes do not count.
double ReshardCosts::seconds_of_type(const Type& type, int from, int to) {
  const Sharding& before = sharding(from);
  const Sharding& after = sharding(to);
  if (kind_of(from, to) == nullptr) return planned_seconds(type, before, after);
  std::vector<int> dims(static_cast<std::size_t>(type.ndim()));
  std::iota(dims.begin(), dims.end(), 0);
  auto [source, target] = shardings_of(form_of(dims, before, after), before.reduction, type.ndim());
  const int a = id_of(std::move(source));
  const int b = id_of(std::move(target));
  return a == from && b == to ? planned_seconds(type, sharding(a), sharding(b)) : seconds(type, a, b);
}

// ---- kinds ----------------------------------------------------------------------------------------------------------

std::vector<int> ReshardCosts::Form::code() const {
  std::vector<int> out;
  const auto add = [&](const std::vector<AxisRef>& axes) {
    for (const AxisRef& ref : axes) out.push_back(ref.axis);
    out.push_back(-1);
  };
  for (std::size_t d = 0; d < from.size(); ++d) {
    add(from[d]);
    add(to[d]);
  }
  add(partial);
  return out;
}

bool ReshardCosts::uses_full_axes(const Sharding& sharding) const {
  if (!sharding.is_tiled() || !(sharding.mesh == mesh_) || !sharding.manual.empty()) return false;
  const auto axes = sharding.used_axes();
  return std::all_of(axes.begin(), axes.end(),
                     [&](const AxisRef& ref) { return ref == mesh_.full_axis(ref.axis) && ref.size > 1; });
}

// The dims that a plan may shard (search_space.cpp): those that one of the shardings uses, and on few axes also others.
std::vector<std::int64_t> ReshardCosts::slot_sizes(const Type& type, const Sharding& from, const Sharding& to) const {
  constexpr int kFew = 3;
  std::vector<std::int64_t> used;
  std::vector<std::int64_t> idle;
  for (int d = 0; d < type.ndim(); ++d) {
    const bool is_used = !at(from.dims, d).axes.empty() || !at(to.dims, d).axes.empty();
    if (is_used)
      used.push_back(type.dim(d));
    else if (type.dim(d) > 1 && axis_count_ <= kFew)
      idle.push_back(type.dim(d));
  }
  for (std::size_t i = 0; i < idle.size() && isize(used) < kFew; ++i) used.push_back(idle[i]);
  return used;
}

// Nullopt if the sizes of the dims matter.
std::optional<double> ReshardCosts::seconds_of_kind(const Type& type, int from, int to) {
  const Kind* kind = kind_of(from, to);
  if (kind == nullptr) return std::nullopt;
  const std::vector<std::int64_t> sizes = slot_sizes(type, sharding(from), sharding(to));
  const std::int64_t devices = mesh_.device_count();
  const auto is_uneven = [&](std::int64_t size) { return size == 0 || size % devices != 0; };
  if (sizes.empty() || type.element_count() == 0 || std::any_of(sizes.begin(), sizes.end(), is_uneven))
    return std::nullopt;
  const auto [entry, is_new] = by_kind_.try_emplace({kind->number, sizes.size(), type.byte_size()}, 0.0);
  if (!is_new) return entry->second;
  // An array with as many bytes, in which all dims but the first have the least size that is even.
  Dims dims(sizes.size(), devices);
  dims.front() = std::accumulate(dims.begin() + 1, dims.end(), type.element_count(), std::divides<>());
  const auto [before, after] = shardings_of(kind->form, kind->reduction, isize(dims));
  return entry->second = planned_seconds(Type::array(type.dtype(), std::move(dims)), before, after);
}

// Null if the shardings are over parts of axes or another mesh, if they are manual, or if the second one is partial.
const ReshardCosts::Kind* ReshardCosts::kind_of(int from, int to) {
  const auto [entry, is_new] = kinds_.try_emplace({from, to});
  std::optional<Kind>& best = entry->second;
  if (!is_new) return best ? &*best : nullptr;
  const Sharding& before = sharding(from);
  const Sharding& after = sharding(to);
  if (!uses_full_axes(before) || !uses_full_axes(after) || after.is_partial()) return nullptr;
  std::vector<int> used;
  for (int d = 0; d < before.ndim(); ++d)
    if (!at(before.dims, d).axes.empty() || !at(after.dims, d).axes.empty()) used.push_back(d);
  constexpr int kMost = 4;  // of dims whose orders are compared
  if (isize(used) > kMost) return nullptr;
  std::vector<int> least;
  do {
    Form form = form_of(used, before, after);
    std::vector<int> code = form.code();
    if (best && least <= code) continue;
    least = std::move(code);
    best = Kind{std::move(form), before.reduction};
  } while (std::next_permutation(used.begin(), used.end()));
  least.push_back(static_cast<int>(before.reduction));
  best->number = numbers_.try_emplace(std::move(least), isize(numbers_)).first->second;
  return &*best;
}

// The dims in this order. Axes of equal size with equal links are interchangeable: the one that is used first gets the
// lowest number.
ReshardCosts::Form ReshardCosts::form_of(const std::vector<int>& dims, const Sharding& from, const Sharding& to) const {
  std::vector<int> names(alike_.size(), -1);
  std::vector<bool> is_taken(alike_.size(), false);
  const auto renamed = [&](std::vector<AxisRef> axes) {
    for (AxisRef& ref : axes) {
      int& name = at(names, ref.axis);
      for (int other = 0; name < 0; ++other) {
        if (at(alike_, other) != at(alike_, ref.axis) || is_taken[static_cast<std::size_t>(other)]) continue;
        is_taken[static_cast<std::size_t>(other)] = true;
        name = other;
      }
      ref.axis = name;
    }
    return axes;
  };
  Form out;
  for (const int d : dims) {
    out.from.push_back(renamed(at(from.dims, d).axes));
    out.to.push_back(renamed(at(to.dims, d).axes));
  }
  out.partial = renamed(from.partial);
  std::sort(out.partial.begin(), out.partial.end());
  return out;
}

std::pair<Sharding, Sharding> ReshardCosts::shardings_of(const Form& form, Reduction reduction, int ndim) const {
  std::pair out(Sharding::replicated(mesh_, ndim), Sharding::replicated(mesh_, ndim));
  for (int d = 0; d < isize(form.from); ++d) {
    at(out.first.dims, d).axes = at(form.from, d);
    at(out.second.dims, d).axes = at(form.to, d);
  }
  out.first.partial = form.partial;
  out.first.reduction = reduction;
  return out;
}

}  // namespace tessera
