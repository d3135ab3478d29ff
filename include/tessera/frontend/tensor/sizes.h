// SPDX-License-Identifier: Apache-2.0
// Sizes that are written without braces: x.view(2, 3).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <source_location>

#include "tessera/frontend/tensor/reduce_options.h"

namespace tessera {

/// The first of several sizes. It records the source location of the call, because a default argument cannot follow
/// the other sizes.
struct FirstSize {
  std::int64_t value;
  std::source_location where;
  template <DimNumber T>
  FirstSize(T size, std::source_location here = std::source_location::current())  // NOLINT(google-explicit-constructor)
      : value(static_cast<std::int64_t>(size)), where(here) {}
};

template <DimNumber... More>
std::array<std::int64_t, 1 + sizeof...(More)> sizes_of(const FirstSize& first, More... more) {
  return {first.value, static_cast<std::int64_t>(more)...};
}

}  // namespace tessera
