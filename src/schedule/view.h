// SPDX-License-Identifier: Apache-2.0
// Arithmetic of views: what a broadcast, transpose, slice, reverse or reshape does to strides.
#pragma once

#include <optional>

#include "tessera/ir/op_def.h"
#include "tessera/schedule/schedule.h"

namespace tessera::schedule {

/// Row-major over dims.
View whole_view(const Dims& dims);
bool is_whole(const View& view);
/// A dim of more than one element is read with stride 0.
bool repeats(const View& view);
/// A dim is read from its end: kernels that take strides (oneDNN's) know no negative ones.
bool runs_backwards(const View& view);
/// Each element of a row-major array `columns` times in a row: nothing unless that is all the view does.
std::optional<std::int64_t> repeated_columns(const View& view);
/// The same elements in row-major order under other dims, if strides can say it.
std::optional<View> reshape_view(const View& view, const Dims& dims);

}  // namespace tessera::schedule
