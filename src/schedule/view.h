// SPDX-License-Identifier: Apache-2.0
// Arithmetic of views: the effect of broadcast, transpose, slice, reverse and reshape on strides.
#pragma once

#include <optional>

#include "tessera/ir/op_def.h"
#include "tessera/schedule/schedule.h"

namespace tessera::schedule {

/// The row-major view of dims.
View row_major_view(const Dims& dims);
bool is_row_major(const View& view);
/// Whether a dim of more than one element is read with stride 0.
bool repeats(const View& view);
/// Whether a dim is read backwards, because some kernels that take strides (oneDNN's) do not support negative ones.
bool runs_backwards(const View& view);
/// The number of times that each element of a row-major array is repeated consecutively; nullopt if the view does
/// anything else.
std::optional<std::int64_t> repeated_columns(const View& view);
/// The same elements in row-major order under other dims, if strides can express them.
std::optional<View> reshape_view(const View& view, const Dims& dims);

}  // namespace tessera::schedule
