// SPDX-License-Identifier: Apache-2.0
#include "tensor/functions/selection.h"

#include <algorithm>
#include <utility>

#include "tessera/base/text.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tracing/recorded.h"

namespace tessera {
namespace {

// The elements of a range in ascending order.
SliceRange ascending(const Range& range, std::int64_t size) {
  require(range.step != 0, "the step of a range must not be 0");
  const bool is_back = range.step < 0;
  const std::int64_t first = is_back ? -1 : 0;  // bounds are moved to [first, last]
  const std::int64_t last = is_back ? size - 1 : size;
  const auto bound = [&](const std::optional<std::int64_t>& given, std::int64_t otherwise) {
    if (!given) return otherwise;
    return std::clamp(*given < 0 ? *given + size : *given, first, last);
  };
  const std::int64_t start = bound(range.start, is_back ? last : first);
  const std::int64_t stop = bound(range.stop, is_back ? first : last);
  const std::int64_t step = is_back ? -range.step : range.step;
  const std::int64_t count = std::max<std::int64_t>(0, ceil_div(is_back ? start - stop : stop - start, step));
  if (count == 0) return {0, 0, 1};
  const std::int64_t least = is_back ? start - (count - 1) * step : start;
  return {least, least + (count - 1) * step + 1, step};
}

std::int64_t count_of(const SliceRange& range) { return ceil_div(range.limit - range.start, range.stride); }

void check_positions(const Type& ids) {
  require(
      ids.dtype() != DType::kPred,
      "{} is a mask: the number of elements that it selects depends on the data, but programs have fixed shapes. To "
      "read, write masked_select(x, mask, {{.size = N}}), or x[nonzero(mask, {{.size = N}})[{{All, 0}}]] for the "
      "rows of a vector mask; to keep the shape, or to write, where(mask, values, x)",
      ids);
  require(is_integer(ids.dtype()), "positions must be integers, got {}", ids);
}

void add_entry(Selection& out, const Type& type, const Index& index) {
  if (index.kind() == Index::Kind::kNewDim) {
    out.sizes.push_back(1);
    return;
  }
  const int d = isize(out.ranges);
  const std::int64_t size = type.dim(d);
  if (index.kind() == Index::Kind::kNumber) {
    const std::int64_t i = index.number() < 0 ? index.number() + size : index.number();
    require(i >= 0 && i < size, "index {} is outside dim {} of {}", index.number(), d, type);
    out.ranges.push_back({i, i + 1, 1});
    return;
  }
  if (index.kind() == Index::Kind::kIds) {
    check_positions(index.ids().type());
    out.ids.push_back({isize(out.sizes), Operand(index.ids(), index.where())});
  }
  const SliceRange range = ascending(index.range(), size);
  if (index.range().step < 0) out.reversed.push_back(d);
  out.sizes.push_back(count_of(range));
  out.ranges.push_back(range);
}

Value in_shape(Value x, const Dims& sizes) { return x.type().dims() == sizes ? x : ops::reshape(x, sizes); }

// `update` at the elements of ranges with strides, and the elements of x between them.
Value with_elements_between(Value x, std::vector<SliceRange> ranges, Value update) {
  Builder& builder = *x.builder;
  std::vector<PaddingDim> padding;
  Dims strides;
  for (SliceRange& range : ranges) {
    strides.push_back(std::exchange(range.stride, 1));
    padding.push_back({0, 0, strides.back() - 1});
  }
  const Value old = ops::slice(x, std::move(ranges));
  const Type positions = Type::array(DType::kS32, old.type().dims());
  Value is_updated;
  for (int d = 0; d < isize(strides); ++d) {
    if (at(strides, d) == 1) continue;
    const Value rest =
        ops::remainder(ops::iota(builder, positions, d), trace().full(positions, static_cast<double>(at(strides, d))));
    const Value fits = ops::compare(rest, constant_like(rest, 0), CompareDirection::kEq);
    is_updated = is_updated.is_null() ? fits : ops::logical_and(is_updated, fits);
  }
  const Value spread = ops::pad(update, ops::scalar(builder, old.type().dtype(), 0), std::move(padding));
  return ops::select(is_updated, spread, old);
}

}  // namespace

Selection selection_of(const Type& array, std::span<const Index> indices) {
  std::int64_t named = 0;
  int others = 0;
  for (const Index& index : indices) {
    if (index.kind() == Index::Kind::kOtherDims)
      ++others;
    else if (index.kind() != Index::Kind::kNewDim)
      ++named;
  }
  require(others <= 1, "Ellipsis may occur once, got it {} times", others);
  require(named <= array.ndim(), "{} entries for the {} dims of {}", named, array.ndim(), array);
  Selection out;
  const auto add_others = [&] {
    for (auto i = named; i < array.ndim(); ++i) add_entry(out, array, Index(All));
  };
  for (const Index& index : indices) {
    if (index.kind() == Index::Kind::kOtherDims)
      add_others();
    else
      add_entry(out, array, index);
  }
  if (others == 0) add_others();
  return out;
}

Value part_of(Value x, const Selection& selection) {
  bool is_complete = true;
  for (int d = 0; d < x.type().ndim(); ++d)
    is_complete = is_complete && at(selection.ranges, d) == SliceRange{0, x.type().dim(d), 1};
  Value out = is_complete ? x : ops::slice(x, selection.ranges);
  if (!selection.reversed.empty()) out = ops::reverse(out, selection.reversed);
  return in_shape(out, selection.sizes);
}

Value with_part(Value x, const Selection& selection, Value part) {
  if (part.type().element_count() == 0) return x;
  Dims counts;
  bool has_strides = false;
  for (const SliceRange& range : selection.ranges) {
    counts.push_back(count_of(range));
    has_strides = has_strides || range.stride != 1;
  }
  Value update = in_shape(part, counts);
  if (!selection.reversed.empty()) update = ops::reverse(update, selection.reversed);
  if (has_strides) update = with_elements_between(x, selection.ranges, update);
  if (update.type() == x.type()) return update;
  std::vector<Value> starts;
  for (const SliceRange& range : selection.ranges)
    starts.push_back(trace().scalar(DType::kS32, static_cast<double>(range.start)));
  return ops::dynamic_update_slice(x, update, starts);
}

}  // namespace tessera
