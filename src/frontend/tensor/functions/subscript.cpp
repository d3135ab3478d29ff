// SPDX-License-Identifier: Apache-2.0
// x[...]: one slice, one reverse if a step is negative, one reshape.
#include <algorithm>
#include <vector>

#include "tessera/base/text.h"
#include "tessera/frontend/tensor/tensor.h"
#include "tessera/ops/structural.h"
#include "tracing/recorded.h"

namespace tessera {
namespace {

struct Selection {
  std::vector<SliceRange> ranges;  // one for each dim of the operand
  Dims reversed;                   // the dims that are read backwards
  Dims sizes;                      // of the result
};

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
  const SliceRange range = ascending(index.range(), size);
  if (index.range().step < 0) out.reversed.push_back(d);
  out.sizes.push_back(ceil_div(range.limit - range.start, range.stride));
  out.ranges.push_back(range);
}

Selection selection_of(const Type& type, std::initializer_list<Index> indices) {
  std::int64_t named = 0;
  int others = 0;
  for (const Index& index : indices) {
    if (index.kind() == Index::Kind::kOtherDims)
      ++others;
    else if (index.kind() != Index::Kind::kNewDim)
      ++named;
  }
  require(others <= 1, "Ellipsis may occur once, got it {} times", others);
  require(named <= type.ndim(), "{} entries for the {} dims of {}", named, type.ndim(), type);
  Selection out;
  const auto add_others = [&] {
    for (auto i = named; i < type.ndim(); ++i) add_entry(out, type, Index(All));
  };
  for (const Index& index : indices) {
    if (index.kind() == Index::Kind::kOtherDims)
      add_others();
    else
      add_entry(out, type, index);
  }
  if (others == 0) add_others();
  return out;
}

}  // namespace

Tensor Tensor::operator[](std::initializer_list<Index> indices) const {
  const std::source_location where = indices.size() == 0 ? std::source_location() : indices.begin()->where();
  return recorded("operator[]", {*this, where}, [&](Value x) {
    Selection selection = selection_of(x.type(), indices);
    bool is_complete = true;
    for (int d = 0; d < x.type().ndim(); ++d)
      is_complete = is_complete && at(selection.ranges, d) == SliceRange{0, x.type().dim(d), 1};
    Value out = is_complete ? x : ops::slice(x, std::move(selection.ranges));
    if (!selection.reversed.empty()) out = ops::reverse(out, std::move(selection.reversed));
    return out.type().dims() == selection.sizes ? out : ops::reshape(out, std::move(selection.sizes));
  });
}

}  // namespace tessera
