// SPDX-License-Identifier: Apache-2.0
// What convolution, reduce-window and select-and-scatter share.
#pragma once

#include <vector>

#include "row_support.h"
#include "tessera/ops/windows.h"

namespace tessera::rows {

/// One element wide, each in its place: the dim passes.
bool is_trivial(const WindowDim& w);
/// Error unless there is one entry per dim, with sizes, strides and dilations that make sense.
void check_window(const WindowDims& window, std::int64_t ndim);
/// w.count(n) for dim `d`; Error where 64 bits do not count its positions.
std::int64_t window_count(const WindowDim& w, std::int64_t n, int d);
/// Of reduce-window and select-and-scatter: one per dim of the first operand.
std::vector<WindowDim> window_dims(const OpView& view);

}  // namespace tessera::rows
