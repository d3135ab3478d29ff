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

// ---- gradients of extrema -------------------------------------------------------------------------------------------

/// The element of `values` at the position of x that select-and-scatter selects in each window; 0 for a window without
/// elements of x. `values` has the dims of x, and the result has the dims `results`.
Value at_selected(Value x, Value values, const WindowDims& window, const Dims& results, CompareDirection select);
/// The sum over all windows of `flow`, each at the first element of x that equals the extremum of its window. `extrema`
/// and `flow` have one element for each window. At least one window, and at least one element of x.
Value flow_to_extrema(Value x, Value extrema, Value flow, const WindowDims& window);

}  // namespace tessera::rows
