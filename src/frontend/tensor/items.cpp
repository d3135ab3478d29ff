// SPDX-License-Identifier: Apache-2.0
// Sizes and elements of a tensor as C++ numbers.
#include <algorithm>
#include <cmath>

#include "tessera/frontend/tensor/tensor.h"
#include "tracing/error_context.h"

namespace tessera {

void Tensor::copy_sizes(std::span<std::int64_t> to, const std::source_location& where) const {
  in_context("sizes", {this}, where,
             [&] { require(std::ssize(to) == ndim(), "needs {} dims, got {}", to.size(), type()); });
  std::copy(dims().begin(), dims().end(), to.begin());
}

std::int64_t Tensor::integer_item(std::int64_t low, std::int64_t high, const std::source_location& where) const {
  if (!is_integer(dtype())) {
    const double number = std::trunc(item(where));
    // 2^63, the double nearest to the largest number, is out of range.
    const bool fits = number >= static_cast<double>(low) && number <= static_cast<double>(high) && number < 0x1p63;
    in_context("item", {this}, where, [&] { require(fits, "{} is not in the range {} to {}", number, low, high); });
    return static_cast<std::int64_t>(number);
  }
  in_context("item", {this}, where, [&] { require(numel() == 1, "needs a single element, got {}", type()); });
  const std::int64_t number = element_as_int(to_host(where), 0);
  in_context("item", {this}, where,
             [&] { require(number >= low && number <= high, "{} is not in the range {} to {}", number, low, high); });
  return number;
}

}  // namespace tessera
