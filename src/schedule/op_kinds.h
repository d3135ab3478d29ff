// SPDX-License-Identifier: Apache-2.0
// Classifies ops for the scheduler.
#pragma once

#include "tessera/ir/op_def.h"

namespace tessera::schedule {

enum class OpKind : std::uint8_t {
  kPlain,
  kParameter,
  kConstant,
  kIota,
  kAlias,        // its leaves are those of its operands: tuple, get-tuple-element, opt-barrier, Sharding
  kReshape,      // one array, the same bytes: reshape, copy, bitcast-convert between sizes
  kView,         // one array read with other strides: broadcast, transpose, slice, reverse
  kElementwise,  // may run tile by tile
};
OpKind kind_of(const OpView& view);

/// Whether the op reads its operands from their first byte and ignores bytes after their end: gather, dynamic-slice of
/// types with kernels.
bool reads_from_the_beginning(const OpView& view);
/// For a reduction of the innermost dims that may be in a fused group: the number of elements per result element.
/// Otherwise 0.
std::int64_t columns_of(const OpView& view);
inline constexpr std::int64_t kMostColumns = 1 << 17;  // a few rows stay in the second-level cache
/// Whether the op is an addition that a product can perform when it writes its result.
bool adds_up(const OpView& view);
/// Whether the op can write its result with its dims in any order: dot of types with kernels.
bool writes_strides(const OpView& view);

}  // namespace tessera::schedule
