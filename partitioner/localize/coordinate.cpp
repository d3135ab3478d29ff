// SPDX-License-Identifier: Apache-2.0
#include "localize/coordinate.h"

#include <limits>
#include <utility>

#include "localize/device_numbers.h"
#include "reshard_planning/search_space.h"
#include "tessera/base/text.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tessera/partitioner/reshard_planning/plan_reshard.h"

namespace tessera {
namespace {

Value lookup(Builder& builder, const Mesh& mesh, const std::vector<AxisRef>& axes) {
  DeviceColumn column;
  for (std::int64_t device = 0; device < mesh.device_count(); ++device)
    column.emplace_back(mesh.coordinate(mesh.position_of(device), axes));
  return emit_by_device(builder, mesh, column);
}

// device / stride % radix
struct CoordinateDigit {
  std::int64_t stride;
  std::int64_t radix;
};

// The digits of device numbers that belong to the axes, major to minor; adjacent digits are merged.
std::vector<CoordinateDigit> digits_of(const Mesh& mesh, const std::vector<AxisRef>& axes) {
  std::vector<CoordinateDigit> out;
  for (const AxisRef& ref : axes) {
    CoordinateDigit digit{at(mesh.axes(), ref.axis).size / (ref.pre * ref.size), ref.size};
    for (int a = ref.axis + 1; a < mesh.axis_count(); ++a) digit.stride *= at(mesh.axes(), a).size;
    if (!out.empty() && out.back().stride == digit.stride * digit.radix)
      out.back() = {digit.stride, out.back().radix * digit.radix};
    else
      out.push_back(digit);
  }
  return out;
}

}  // namespace

Value emit_coordinate(Builder& builder, const Mesh& mesh, const std::vector<AxisRef>& axes) {
  const auto parts = merged_axes(axes);
  if (parts.empty()) return number(builder, 0);
  if (!mesh.device_order().empty()) return lookup(builder, mesh, parts);
  Value sum{};
  std::int64_t scale = axes_size(parts);
  for (const CoordinateDigit& digit : digits_of(mesh, parts)) {
    Value part = device_number(builder);
    if (digit.stride > 1) part = ops::divide(part, number(builder, digit.stride));
    if (digit.stride * digit.radix < mesh.device_count()) part = ops::remainder(part, number(builder, digit.radix));
    scale /= digit.radix;
    if (scale > 1) part = ops::multiply(part, number(builder, scale));
    sum = sum.is_null() ? part : ops::add(sum, part);
  }
  return sum;
}

Value emit_mask(Builder& builder, Value local, const Type& global, const Sharding& sharding,
                const std::vector<int>& dims, Value fill) {
  const Dims& sizes = local.type().dims();
  Value inside{};
  for (const int d : dims) {
    const auto length = at(sizes, d);
    if (!sharding.is_tiled() || length * sharding.tiles(d) == global.dim(d)) continue;
    const Value tile = emit_coordinate(builder, sharding.mesh, at(sharding.dims, d).axes);
    const Value start = ops::multiply(tile, number(builder, length));
    const Value left = ops::subtract(number(builder, global.dim(d)), start);
    const Value index = ops::iota(builder, Type::array(DType::kS32, sizes), d);
    const Value here = ops::compare(index, ops::splat(left, sizes), CompareDirection::kLt);
    inside = inside.is_null() ? here : ops::logical_and(inside, here);
  }
  if (inside.is_null()) return local;
  return ops::select(inside, local, ops::splat(fill, sizes));
}

Value Coordinates::of(const Mesh& mesh, const std::vector<AxisRef>& axes) {
  for (const Known& known : known_)
    if (known.axes == axes && known.mesh == mesh) return known.value;
  const NotesRef notes = std::exchange(builder_.default_notes, nullptr);
  known_.push_back({mesh, axes, emit_coordinate(builder_, mesh, axes)});
  builder_.default_notes = notes;
  return known_.back().value;
}

Value Coordinates::shard_start(const Sharding& sharding, int dim, std::int64_t size) {
  const auto tiles = sharding.tiles(dim);
  if (tiles == 1) return number(builder_, 0);
  const std::int64_t length = ceil_div(size, tiles);
  require(size <= std::numeric_limits<std::int32_t>::max(),
          "dim {} has {} elements on {} devices, and the program needs the start of each tile; per-device programs "
          "count positions in s32, up to 2147483647",
          dim, size, tiles);
  return ops::multiply(of(sharding.mesh, at(sharding.dims, dim).axes), number(builder_, length));
}

void mask_reduced_padding(const FactorMap& map, LocalizeContext& context) {
  for (int i = 0; i < isize(context.operands) && i < isize(map.operands); ++i) {
    const Type& global = at(context.view.operands, i);
    if (!global.is_array()) continue;
    const Sharding& sharding = at(context.operand_shardings, i);
    std::vector<int> dims;
    for (int d = 0; d < isize(at(map.operands, i)); ++d) {
      const auto& factors = at(at(map.operands, i), d);
      const bool reduces = factors.size() == 1 && at(map.factors, factors[0]).kind == FactorKind::kReduce;
      if (reduces && global.dim(d) % sharding.tiles(d) != 0) dims.push_back(d);
    }
    if (dims.empty()) continue;
    const Value fill = ops::constant(context.builder, reduction_identity(map.reduction, global.dtype()));
    at(context.operands, i) = emit_mask(context.builder, at(context.operands, i), global, sharding, dims, fill);
  }
}

}  // namespace tessera
