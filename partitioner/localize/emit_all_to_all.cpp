// SPDX-License-Identifier: Apache-2.0
// Emits one all-to-all that moves axes from some dims to others. With g the moved axes, in the order of the dims that
// lose them:
//
//   local [.., rows, .., columns, ..] -> parts [g, .., rows, .., columns/g, ..] -> all-to-all over g along dim 0
//         -> [.., g*rows, .., columns/g, ..]
#include <algorithm>

#include "localize/emit_reshard.h"
#include "reshard_planning/search_space.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/ops/collectives.h"
#include "tessera/ops/structural.h"

namespace tessera::reshard {
namespace {

struct MovedAxes {
  std::vector<AxisRef> group;                // all moved axes, split to common parts
  std::vector<std::vector<AxisRef>> lost;    // per dim
  std::vector<std::vector<AxisRef>> gained;  // per dim
};

MovedAxes moved_axes(const Placement& before, const Placement& after) {
  MovedAxes moved;
  std::vector<AxisRef> all;
  for (int d = 0; d < isize(before.dims); ++d) {
    moved.lost.push_back(minor_axes(at(before.sharding.dims, d).axes, at(after.dims, d).tiles));
    moved.gained.push_back(minor_axes(at(after.sharding.dims, d).axes, at(before.dims, d).tiles));
    if (at(after.dims, d).tiles >= at(before.dims, d).tiles) moved.lost.back().clear();
    if (at(after.dims, d).tiles <= at(before.dims, d).tiles) moved.gained.back().clear();
    all.insert(all.end(), moved.lost.back().begin(), moved.lost.back().end());
    all.insert(all.end(), moved.gained.back().begin(), moved.gained.back().end());
  }
  const auto units = common_units(before.sharding.mesh, all);
  ensure(units.has_value(), "axes of an all-to-all do not nest: {} to {}", before.sharding, after.sharding);
  for (int d = 0; d < isize(before.dims); ++d) {
    at(moved.lost, d) = split_axes(at(moved.lost, d), *units);
    at(moved.gained, d) = split_axes(at(moved.gained, d), *units);
    moved.group.insert(moved.group.end(), at(moved.lost, d).begin(), at(moved.lost, d).end());
  }
  return moved;
}

int place_in(const std::vector<AxisRef>& list, const AxisRef& ref) {
  return static_cast<int>(std::find(list.begin(), list.end(), ref) - list.begin());
}

// [.., columns, ..] -> [g, .., columns/g, ..]: moves the digits of every gaining dim to the front, in the order of the
// group.
Value split_parts(Value x, const MovedAxes& moved) {
  const Dims& dims = x.type().dims();
  Dims split;
  Dims front(moved.group.size(), 0);
  Dims back;
  Dims merged{axes_size(moved.group)};
  for (int d = 0; d < isize(dims); ++d) {
    const auto& gained = at(moved.gained, d);
    for (const AxisRef& ref : gained) {
      at(front, place_in(moved.group, ref)) = isize(split);
      split.push_back(ref.size);
    }
    back.push_back(isize(split));
    split.push_back(at(dims, d) / axes_size(gained));
    merged.push_back(split.back());
  }
  Dims order = front;
  order.insert(order.end(), back.begin(), back.end());
  x = ops::reshape(x, split);
  if (!std::is_sorted(order.begin(), order.end())) x = ops::transpose(x, order);
  return ops::reshape(x, merged);
}

// [g, .., rows, ..] -> [.., g*rows, ..]: puts each digit of the group before the dim that lost it.
Value join_parts(Value x, const MovedAxes& moved) {
  const Dims& dims = x.type().dims();
  Dims split;
  for (const AxisRef& ref : moved.group) split.push_back(ref.size);
  split.insert(split.end(), dims.begin() + 1, dims.end());
  Dims order;
  Dims merged;
  std::int64_t next = 0;
  for (int d = 0; d < isize(dims) - 1; ++d) {
    const auto& lost = at(moved.lost, d);
    for (std::size_t i = 0; i < lost.size(); ++i) order.push_back(next++);
    order.push_back(isize(moved.group) + d);
    merged.push_back(at(dims, d + 1) * axes_size(lost));
  }
  x = ops::reshape(x, split);
  if (!std::is_sorted(order.begin(), order.end())) x = ops::transpose(x, order);
  return ops::reshape(x, merged);
}

}  // namespace

Value emit_all_to_all(Value local, const Placement& before, const Placement& after, std::int64_t channel,
                      Value& collective) {
  const MovedAxes moved = moved_axes(before, after);
  for (int d = 0; d < isize(before.dims); ++d)
    if (!at(moved.gained, d).empty())
      local = pad_to(local, d, at(after.dims, d).length * axes_size(at(moved.gained, d)));
  collective = ops::all_to_all(split_parts(local, moved), 0, {before.sharding.mesh.groups(moved.group)}, channel);
  Value out = join_parts(collective, moved);
  for (int d = 0; d < isize(before.dims); ++d) out = trim_to(out, d, at(after.dims, d).length);
  return out;
}

}  // namespace tessera::reshard
