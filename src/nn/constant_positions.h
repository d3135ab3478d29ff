// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <source_location>
#include <vector>

#include "tessera/frontend/tracing/inner.h"
#include "tessera/ops/structural.h"

namespace tessera::nn {

/// A vector of positions that is a constant of the program.
inline Tensor constant_positions(const std::vector<std::int32_t>& positions, const std::source_location& where) {
  return trace().record(where, [&](Builder& builder) {
    return ops::constant(builder,
                         Literal::from<std::int32_t>({static_cast<std::int64_t>(positions.size())}, positions));
  });
}

}  // namespace tessera::nn
