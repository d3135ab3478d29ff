// SPDX-License-Identifier: Apache-2.0
// Windows by pads, slices and elementwise ops, with a few ops for each element of a window. Gradients of extrema over
// windows use this form, because it has gradients of every order and is sharded like all slices.
#include <algorithm>
#include <optional>

#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "window_support.h"

namespace tessera::rows {
namespace {

// An operand of windows with its padding and with holes between dilated elements. A tap is one element of each window.
class WindowTaps {
 public:
  WindowTaps(const WindowDims& window, Dims operand, Dims results)
      : window_(window), operand_(std::move(operand)), results_(std::move(results)) {
    for (const WindowDim& w : window_.dims) sizes_.push_back(w.size);
  }

  /// The numbers of elements of a window.
  [[nodiscard]] const Dims& sizes() const { return sizes_; }
  /// True if some element of a window may be no element of the operand.
  [[nodiscard]] bool has_outside() const {
    return std::any_of(window_.dims.begin(), window_.dims.end(),
                       [](const WindowDim& w) { return w.low > 0 || w.high > 0 || w.base_dilation > 1; });
  }
  /// x with the padding, which is `outside`.
  [[nodiscard]] Value padded(Value x, double outside) const {
    std::vector<PaddingDim> padding;
    for (const WindowDim& w : window_.dims) padding.push_back({w.low, w.high, w.base_dilation - 1});
    return ops::pad(x, ops::scalar(*x.builder, x.type().dtype(), outside), std::move(padding));
  }
  /// True for elements of the operand, with the padding.
  [[nodiscard]] Value inside(Builder& builder) const {
    return padded(ops::full(builder, Type::array(DType::kPred, operand_), 1), 0);
  }
  /// The element at `place` of each window: an array with the dims of the results.
  [[nodiscard]] Value tap(Value padded, const Dims& place) const {
    std::vector<SliceRange> ranges;
    for (int d = 0; d < isize(sizes_); ++d) {
      const std::int64_t start = first(d, place);
      ranges.push_back({start, start + span(d), at(window_.dims, d).stride});
    }
    return ops::slice(padded, std::move(ranges));
  }
  /// The transposes of tap() and of padded().
  [[nodiscard]] Value spread(Value flow, const Dims& place) const {
    std::vector<PaddingDim> padding;
    for (int d = 0; d < isize(sizes_); ++d) {
      const WindowDim& w = at(window_.dims, d);
      const std::int64_t size = (at(operand_, d) - 1) * w.base_dilation + 1 + w.low + w.high;
      padding.push_back({first(d, place), size - first(d, place) - span(d), w.stride - 1});
    }
    return ops::pad(flow, ops::scalar(*flow.builder, flow.type().dtype(), 0), std::move(padding));
  }
  [[nodiscard]] Value unpadded(Value flow) const {
    std::vector<PaddingDim> removed;
    std::vector<SliceRange> elements;
    for (int d = 0; d < isize(sizes_); ++d) {
      const WindowDim& w = at(window_.dims, d);
      removed.push_back({-w.low, -w.high, 0});
      elements.push_back({0, (at(operand_, d) - 1) * w.base_dilation + 1, w.base_dilation});
    }
    const Value zero = ops::scalar(*flow.builder, flow.type().dtype(), 0);
    return ops::slice(ops::pad(flow, zero, std::move(removed)), std::move(elements));
  }

 private:
  [[nodiscard]] std::int64_t first(int d, const Dims& place) const {
    return at(place, d) * at(window_.dims, d).dilation;
  }
  // From the first to the last element of one tap along a dim.
  [[nodiscard]] std::int64_t span(int d) const { return (at(results_, d) - 1) * at(window_.dims, d).stride + 1; }

  const WindowDims& window_;
  Dims operand_;
  Dims results_;
  Dims sizes_;
};

bool has_no_elements(const Dims& dims) { return std::find(dims.begin(), dims.end(), 0) != dims.end(); }

}  // namespace

Value at_selected(Value x, Value values, const WindowDims& window, const Dims& results, CompareDirection select) {
  Builder& builder = *x.builder;
  const Dims dims = x.type().dims();
  if (has_no_elements(results) || has_no_elements(dims))
    return ops::full(builder, Type::array(values.type().dtype(), results), 0);
  const WindowTaps taps(window, dims, results);
  const Value padded = taps.padded(x, 0);
  const Value padded_values = taps.padded(values, 0);
  const std::optional<Value> inside = taps.has_outside() ? std::optional(taps.inside(builder)) : std::nullopt;
  Value best{};
  Value found{};
  Value is_found{};  // null if all elements of windows are elements of x
  for_each_index(taps.sizes(), [&](const Dims& place) {
    const Value element = taps.tap(padded, place);
    const Value value = taps.tap(padded_values, place);
    const Value exists = inside ? taps.tap(*inside, place) : Value{};
    if (best.is_null()) {
      best = element, found = value, is_found = exists;
      return;
    }
    Value keeps = ops::compare(best, element, select);
    if (inside) {
      keeps = ops::logical_or(ops::logical_and(is_found, keeps), ops::logical_not(exists));
      is_found = ops::logical_or(is_found, exists);
    }
    best = ops::select(keeps, best, element);
    found = ops::select(keeps, found, value);
  });
  return found;
}

Value flow_to_extrema(Value x, Value extrema, Value flow, const WindowDims& window) {
  Builder& builder = *x.builder;
  const Dims dims = x.type().dims();
  const WindowTaps taps(window, dims, extrema.type().dims());
  const Value padded = taps.padded(x, 0);
  const Value inside = taps.inside(builder);
  const Value nothing = full_like(flow, 0);
  Value is_taken{};
  Value total{};
  for_each_index(taps.sizes(), [&](const Dims& place) {
    const Value is_equal = ops::compare(taps.tap(padded, place), extrema, CompareDirection::kEq);
    Value takes = ops::logical_and(taps.tap(inside, place), is_equal);
    if (!is_taken.is_null()) takes = ops::logical_and(takes, ops::logical_not(is_taken));
    is_taken = is_taken.is_null() ? takes : ops::logical_or(is_taken, takes);
    const Value part = taps.spread(ops::select(takes, flow, nothing), place);
    total = total.is_null() ? part : ops::add(total, part);
  });
  return taps.unpadded(total);
}

}  // namespace tessera::rows
