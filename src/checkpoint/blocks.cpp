// SPDX-License-Identifier: Apache-2.0
#include "blocks.h"

#include <algorithm>

#include "files/read_elements.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera {

void for_each_block(const Region& region, DType dtype, const std::function<void(const Region&)>& use) {
  const auto longest =
      std::find_if(region.dims.begin(), region.dims.end(), [](const Interval& dim) { return dim.size() > 1; });
  if (region.element_count() * dtype_size(dtype) <= kMostBlockBytes || longest == region.dims.end()) return use(region);
  Region first = region;
  Region second = region;
  const auto d = static_cast<std::size_t>(longest - region.dims.begin());
  const std::int64_t middle = longest->start + longest->size() / 2;
  first.dims[d].limit = middle;
  second.dims[d].start = middle;
  for_each_block(first, dtype, use);
  for_each_block(second, dtype, use);
}

std::vector<std::byte> read_region(const std::vector<Piece>& pieces, const Type& type, const Region& region) {
  const auto size = static_cast<std::size_t>(dtype_size(type.dtype()));
  std::vector<std::byte> out(static_cast<std::size_t>(region.element_count()) * size);
  for (const Piece& piece : pieces)
    for_each_run(intersection(region, piece.region), buffer_of(piece.region), buffer_of(region),
                 [&](std::int64_t from, std::int64_t to, std::int64_t count) {
                   read_elements(*piece.file, piece.offset, from, type.dtype(), type.dtype(),
                                 std::span(out).subspan(static_cast<std::size_t>(to) * size,
                                                        static_cast<std::size_t>(count) * size));
                 });
  return out;
}

}  // namespace tessera
