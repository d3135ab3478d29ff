// SPDX-License-Identifier: Apache-2.0
// Sizes of windows: one number for all dims of an image, or one for each.
#pragma once

#include <algorithm>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/tensor/type.h"

namespace tessera {

/// Returns the entry for image dim `dim` of a list of one or two. Error, with the name of the argument, for other lists.
inline std::int64_t size_of(const Dims& sizes, std::string_view name, std::size_t dim) {
  require(sizes.size() == 1 || sizes.size() == 2, "{} needs one number or two, got {}", name, sizes.size());
  return sizes[std::min(dim, sizes.size() - 1)];
}

}  // namespace tessera
