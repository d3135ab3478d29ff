// SPDX-License-Identifier: Apache-2.0
// Helpers that convolution, reduce-window and select-and-scatter share.
#pragma once

#include <vector>

#include "row_support.h"
#include "tessera/ops/windows.h"

namespace tessera::rows {

/// Whether the window is one element wide and at its own position, so that the dim passes.
bool is_trivial(const WindowDim& w);
/// Throws an Error unless there is one entry per dim, with valid sizes, strides and dilations.
void check_window(const WindowDims& window, std::int64_t ndim);
/// w.count(n) for dim `d`. Throws an Error if 64 bits cannot hold the number of positions.
std::int64_t window_count(const WindowDim& w, std::int64_t n, int d);
/// For reduce-window and select-and-scatter: one entry per dim of the first operand.
std::vector<WindowDim> window_dims(const OpView& view);

}  // namespace tessera::rows
