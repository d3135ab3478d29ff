// SPDX-License-Identifier: Apache-2.0
// How the scheduler treats an op.
#pragma once

#include "tessera/ir/op_def.h"

namespace tessera::schedule {

enum class OpKind : std::uint8_t {
  kPlain,
  kParameter,
  kConstant,
  kIota,
  kAlias,        // its leaves are its operands' leaves: tuple, get-tuple-element, opt-barrier, Sharding
  kReshape,      // one array, the same bytes: reshape, copy, bitcast-convert between sizes
  kView,         // one array read with other strides: broadcast, transpose, slice, reverse
  kElementwise,  // may run tile by tile
};
OpKind kind_of(const OpView& view);

/// Reads its operands from their first byte on, whatever lies behind them: gather, dynamic-slice of types that have kernels.
bool reads_from_the_beginning(const OpView& view);
/// Of a reduction of the innermost dims that a fused group may hold: how many elements make one of the result. 0: none such.
std::int64_t columns_of(const OpView& view);
inline constexpr std::int64_t kMostColumns = 1 << 17;  // a few rows stay in the second-level cache
/// An addition that a product can do while it is made.
bool adds_up(const OpView& view);
/// Writes its result in any order of its dims: dot of types that have kernels.
bool writes_strides(const OpView& view);

}  // namespace tessera::schedule
