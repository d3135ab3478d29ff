// SPDX-License-Identifier: Apache-2.0
// convolution, reduce-window, select-and-scatter: each result reads a window of the operand.
//
//   window={size=3x3 stride=2x2 pad=1_1x1_1 lhs_dilate=1x1 rhs_dilate=1x1 rhs_reversal=0x0}
#pragma once

#include <optional>
#include <string>

#include "tessera/ir/builder.h"
#include "tessera/ops/elementwise.h"

namespace tessera {

/// One dim of a window. Result index o reads the positions o*stride - low + k*dilation of the operand, for k in [0,
/// size). Element j of the operand is at position j*base_dilation. The operand element at this position is combined
/// with window element k, or with size-1-k if `reversed`.
struct WindowDim {
  std::int64_t size = 1;
  std::int64_t stride = 1;
  std::int64_t low = 0;
  std::int64_t high = 0;
  std::int64_t base_dilation = 1;
  std::int64_t dilation = 1;
  bool reversed = false;
  /// The number of positions from the first to the last one that one result reads.
  [[nodiscard]] std::int64_t extent() const { return size == 0 ? 0 : (size - 1) * dilation + 1; }
  /// The number of results for an operand of `n` elements.
  [[nodiscard]] std::int64_t count(std::int64_t n) const;
  /// The range [first, limit) of window elements that result `o` combines with one of the operand's `n` elements. With
  /// dilation, some elements in the range are combined with none.
  struct Taps {
    std::int64_t first = 0;
    std::int64_t limit = 0;
  };
  [[nodiscard]] Taps taps(std::int64_t o, std::int64_t n) const;
  /// The index of the operand element at `position`; -1 if the position is between elements or beyond the ends.
  [[nodiscard]] std::int64_t element_at(std::int64_t position, std::int64_t n) const;
  friend bool operator==(const WindowDim&, const WindowDim&) = default;
};

/// HLO's `window={..}`. A window without dims is not printed.
struct WindowDims {
  std::vector<WindowDim> dims;
  friend bool operator==(const WindowDims&, const WindowDims&) = default;
};
std::string field_text(const WindowDims& value);
void parse_field(std::string_view text, WindowDims& value);

/// `b01f_01io->b01f`: the meaning of each dim of lhs, rhs and result. Digits are dims of the window.
struct ConvolutionLabels {
  std::int64_t lhs_batch = 0;
  std::int64_t lhs_feature = 0;
  Dims lhs_spatial;
  std::int64_t rhs_input = 0;
  std::int64_t rhs_output = 0;
  Dims rhs_spatial;
  std::int64_t result_batch = 0;
  std::int64_t result_feature = 0;
  Dims result_spatial;
  friend bool operator==(const ConvolutionLabels&, const ConvolutionLabels&) = default;
};
std::string field_text(const ConvolutionLabels& value);
void parse_field(std::string_view text, ConvolutionLabels& value);

struct ConvolutionAttributes {
  WindowDims window;
  ConvolutionLabels dim_labels;
  std::int64_t feature_group_count = 1;
  std::int64_t batch_group_count = 1;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("window", self.window, Presence::kIfNotDefault);
    visit("dim_labels", self.dim_labels, Presence::kRequired);
    visit("feature_group_count", self.feature_group_count, Presence::kIfNotDefault);
    visit("batch_group_count", self.batch_group_count, Presence::kIfNotDefault);
  }
  friend bool operator==(const ConvolutionAttributes&, const ConvolutionAttributes&) = default;
};
/// For reduce-window and select-and-scatter: one entry for each dim, or none (all sizes are 1).
struct WindowAttributes {
  WindowDims window;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("window", self.window, Presence::kIfNotDefault);
  }
  friend bool operator==(const WindowAttributes&, const WindowAttributes&) = default;
};

/// The direction of a computation that only compares its two parameters.
std::optional<CompareDirection> comparison_of(const Computation& computation);

namespace ops {
/// HLO's convolution.
Value convolution(Value lhs, Value rhs, ConvolutionAttributes attributes);
/// HLO's general form; several operands give a tuple.
Value reduce_window(const std::vector<Value>& operands, const std::vector<Value>& inits, WindowDims window,
                    ComputationId computation);
/// Starts from the identity of the reduction.
Value reduce_window(Value x, Reduction reduction, WindowDims window);
/// Each element of `source` belongs to one window of `operand`. `select` chooses an element of the window, and
/// `scatter` combines the element of `source` with the result at this position, starting from `init`.
Value select_and_scatter(Value operand, Value source, Value init, WindowDims window, ComputationId select,
                         ComputationId scatter);
}  // namespace ops
}  // namespace tessera
