// SPDX-License-Identifier: Apache-2.0
// Expresses a sharding in the axes of another mesh. A position of a mesh is a mixed-radix number, and an axis is a
// range of its digits, so axes are translated by their strides. A transposed device order is a permutation of digits.
#include <algorithm>

#include "reshard_planning/search_space.h"
#include "tessera/base/text.h"

namespace tessera::reshard {
namespace {

// A digit of the target's positions: its stride in positions of the source, and the number of its values.
struct Digit {
  std::int64_t stride = 1;
  std::int64_t size = 1;
};

// The position in `mesh` of the device at each position of `to`, as digits from minor to major. Null if the order is
// not a transposition.
std::optional<std::vector<Digit>> digits_between(const Mesh& mesh, const Mesh& to) {
  const auto count = mesh.device_count();
  if (mesh.device_order() == to.device_order()) return std::vector<Digit>{{1, count}};
  const auto where = [&](std::int64_t position) { return mesh.position_of(to.device_at(position)); };
  if (where(0) != 0) return std::nullopt;
  std::vector<Digit> digits;
  for (std::int64_t done = 1; done < count;) {
    const auto stride = where(done);
    std::int64_t run = 1;
    while (run * done < count && where(run * done) == run * stride) ++run;
    const auto rest = count / done;
    while (rest % run != 0) --run;
    if (run == 1) return std::nullopt;
    digits.push_back({stride, run});
    done *= run;
  }
  for (std::int64_t position = 0; position < count; ++position) {
    std::int64_t rest = position;
    std::int64_t there = 0;
    for (const Digit& digit : digits) {
      there += rest % digit.size * digit.stride;
      rest /= digit.size;
    }
    if (there != where(position)) return std::nullopt;
  }
  return digits;
}

std::vector<std::int64_t> axis_strides(const Mesh& mesh) {
  std::vector<std::int64_t> strides(mesh.axes().size());
  std::int64_t stride = 1;
  for (int a = mesh.axis_count() - 1; a >= 0; --a) {
    at(strides, a) = stride;
    stride *= at(mesh.axes(), a).size;
  }
  return strides;
}

// The digits that form [stride, stride * size) of the target's positions, major to minor. False if a boundary is inside
// a digit.
bool split_digits(const std::vector<Digit>& digits, std::int64_t stride, std::int64_t size, std::vector<Digit>& out) {
  std::vector<Digit> minor_first;
  std::int64_t low = 1;
  for (const Digit& digit : digits) {
    const auto high = low * digit.size;
    const auto from = std::max(low, stride);
    const auto to = std::min(high, stride * size);
    if (from < to) {
      if (from % low != 0 || to % from != 0 || high % to != 0) return false;
      minor_first.push_back({digit.stride * (from / low), to / from});
    }
    low = high;
  }
  out.insert(out.end(), minor_first.rbegin(), minor_first.rend());
  return true;
}

// The sub-axes of `mesh` with stride `stride` and `size` values, major to minor.
bool digit_axes(const Mesh& mesh, const std::vector<std::int64_t>& strides, const Digit& digit,
                std::vector<AxisRef>& out) {
  std::int64_t covered = 1;
  for (int a = 0; a < mesh.axis_count(); ++a) {
    const auto low = at(strides, a);
    const auto high = low * at(mesh.axes(), a).size;
    const auto from = std::max(low, digit.stride);
    const auto to = std::min(high, digit.stride * digit.size);
    if (from >= to) continue;
    if (from % low != 0 || to % from != 0 || high % to != 0) return false;
    out.push_back({a, high / to, to / from});
    covered *= to / from;
  }
  return covered == digit.size;
}

std::optional<Sharding> translate(const Mesh& mesh, const Sharding& to, const std::vector<Digit>& digits) {
  const auto mesh_strides = axis_strides(mesh);
  const auto to_strides = axis_strides(to.mesh);
  const auto translated = [&](const std::vector<AxisRef>& axes, std::vector<AxisRef>& out) {
    std::vector<Digit> parts;
    for (const AxisRef& ref : axes) {
      const auto rest = at(to.mesh.axes(), ref.axis).size / (ref.pre * ref.size);
      if (!split_digits(digits, at(to_strides, ref.axis) * rest, ref.size, parts)) return false;
    }
    for (const Digit& part : parts)
      if (!digit_axes(mesh, mesh_strides, part, out)) return false;
    return true;
  };
  Sharding out = Sharding::replicated(mesh, to.ndim());
  out.reduction = to.reduction;
  for (int d = 0; d < to.ndim(); ++d)
    if (!translated(at(to.dims, d).axes, at(out.dims, d).axes)) return std::nullopt;
  if (!translated(to.partial, out.partial) || !translated(to.manual, out.manual)) return std::nullopt;
  return out;
}

}  // namespace

std::optional<Sharding> in_axes_of(const Mesh& mesh, const Sharding& to) {
  if (mesh == to.mesh) return to;
  if (mesh.device_count() != to.mesh.device_count()) return std::nullopt;
  const auto digits = digits_between(mesh, to.mesh);
  return digits ? translate(mesh, to, *digits) : std::nullopt;
}

std::optional<Sharding> in_positions_of(const Mesh& mesh, const Sharding& to) {
  if (mesh.device_count() != to.mesh.device_count()) return std::nullopt;
  return translate(mesh, to, {{1, mesh.device_count()}});
}

}  // namespace tessera::reshard
