// SPDX-License-Identifier: Apache-2.0
#include "tessera/tensor/shape.h"

#include <fmt/ranges.h>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera {

std::int64_t Shape::operator[](int dim) const {
  require(dim >= -ndim() && dim < ndim(), "the shape {} has no dim {}", *this, dim);
  return at(dims_, dim < 0 ? dim + ndim() : dim);
}

std::int64_t Shape::numel() const {
  std::int64_t count = 1;
  for (const auto size : dims_)
    require(!__builtin_mul_overflow(count, size, &count), "{} has more elements than 63 bits can count", *this);
  return count;
}

std::string Shape::str() const { return fmt::format("[{}]", fmt::join(dims_, ", ")); }

}  // namespace tessera
