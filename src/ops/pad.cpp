// SPDX-License-Identifier: Apache-2.0
//   %p = f32[6,3] pad(%x, %v), padding=1_1_1x0_0     low_high_interior; negative low and high remove elements
#include <fmt/format.h>

#include <algorithm>

#include "batch_rules.h"
#include "row_support.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/base/checked.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {

std::string field_text(const std::vector<PaddingDim>& value) {
  std::vector<std::string> dims;
  for (const auto& p : value)
    dims.push_back(p.interior == 0 ? fmt::format("{}_{}", p.low, p.high)
                                   : fmt::format("{}_{}_{}", p.low, p.high, p.interior));
  return fmt::format("{}", fmt::join(dims, "x"));
}

void parse_field(std::string_view text, std::vector<PaddingDim>& value) {
  value.clear();
  for (const auto& dim : split(trim(text), 'x')) {
    const auto parts = split(dim, '_');
    require(parts.size() == 2 || parts.size() == 3, "expected low_high or low_high_interior, got {}", dim);
    PaddingDim p;
    parse_field(parts[0], p.low);
    parse_field(parts[1], p.high);
    if (parts.size() == 3) parse_field(parts[2], p.interior);
    value.push_back(p);
  }
}

namespace rows {
namespace {

bool is_untouched(const PaddingDim& p) { return p == PaddingDim{}; }

// The distance between elements of dim `d`; 1 if there are fewer than two.
std::int64_t step_of(const OpView& view, int d) {
  return view.operands[0].dim(d) < 2 ? 1 : at(view.as<PadAttributes>().padding, d).interior + 1;
}

std::int64_t padded_size(std::int64_t n, const PaddingDim& p, int d) {
  constexpr std::int64_t kMost = Type::kMostBytes;
  require(p.interior >= 0, "dim {}: interior padding {} is negative", d, p.interior);
  for (const std::int64_t number : {p.low, p.high, p.interior})
    require(number <= kMost && number >= -kMost,
            "dim {}: padding {}_{}_{} is larger than 2^60, the most that a dim may have", d, p.low, p.high, p.interior);
  const Checked size = Checked(n) + Checked(std::max<std::int64_t>(n - 1, 0)) * p.interior + p.low + p.high;
  require(size.fits(), "dim {}: {} elements with padding {}_{}_{} are more than 64 bits can count", d, n, p.low, p.high,
          p.interior);
  require(size.value() >= 0, "dim {}: padding {}_{}_{} leaves size {}", d, p.low, p.high, p.interior, size.value());
  return size.value();
}

Type infer_pad(const OpView& view) {
  const Type& x = array_operand(view, 0);
  const auto& padding = view.as<PadAttributes>().padding;
  const Type& fill = scalar_operand(view, 1, "the padding value");
  require(fill.dtype() == x.dtype(), "the padding value is {}, the operand {}", fill, x);
  require(
      isize(padding) == x.ndim(), "padding={} needs one entry per dim of {}", [&] { return field_text(padding); }, x);
  Dims dims;
  for (int d = 0; d < x.ndim(); ++d) dims.push_back(padded_size(x.dim(d), at(padding, d), d));
  return declared_or(view, Type::array(x.dtype(), std::move(dims)));
}

Literal evaluate_pad(const EvalContext& context) {
  const Literal& x = context.operands[0];
  Literal out = splat_literal(context.operands[1], context.view.result);
  StridedSide source{0, row_major_strides(x.type().dims())};
  StridedSide target{0, row_major_strides(out.type().dims())};
  Dims box = x.type().dims();
  for (std::size_t d = 0; d < box.size(); ++d) {
    const PaddingDim& p = context.view.as<PadAttributes>().padding[d];
    const std::int64_t step = step_of(context.view, static_cast<int>(d));
    // Operand index i is at low + i*step; those in [first, limit) are in the result.
    const std::int64_t first = p.low >= 0 ? 0 : ceil_div(-p.low, step);
    const std::int64_t room = at(out.type().dims(), d) - p.low;
    const std::int64_t limit = room <= 0 ? 0 : std::min(box[d], ceil_div(room, step));
    box[d] = std::max<std::int64_t>(limit - first, 0);
    source.offset += first * source.strides[d];
    target.offset += (p.low + first * step) * target.strides[d];
    target.strides[d] *= step;
  }
  strided_copy(x, source, out, target, box);
  return out;
}

FactorMap factors_pad(const OpView& view) {
  FactorMap map;
  TensorFactors tensor;
  for (int d = 0; d < view.result.ndim(); ++d) {
    const PaddingDim& p = at(view.as<PadAttributes>().padding, d);
    const int factor = map.add(view.result.dim(d), is_untouched(p) ? FactorKind::kPass : FactorKind::kPermute);
    tensor.push_back({factor});
    if (!is_untouched(p))
      map.windows.push_back({.dim = d, .factor = factor, .low = p.low, .dilation = step_of(view, d)});
  }
  map.operands = {tensor, {}};
  map.results = {tensor};
  return map;
}

// Removes low and high, then takes every (interior+1)-th element; the remaining gradient belongs to the padding value.
std::vector<Value> gradient_pad(GradientContext& c) {
  const Type& x = c.view.operands[0];
  std::vector<PaddingDim> undone;
  std::vector<SliceRange> ranges;
  for (int d = 0; d < x.ndim(); ++d) {
    const PaddingDim& p = at(c.view.as<PadAttributes>().padding, d);
    undone.push_back({-p.low, -p.high, 0});
    const std::int64_t spread = x.dim(d) + std::max<std::int64_t>(x.dim(d) - 1, 0) * p.interior;
    ranges.push_back({0, spread, step_of(c.view, d)});
  }
  const Value spread = ops::pad(c.d_result(), ops::scalar(c.builder, x.dtype(), 0), undone);
  const Value d_x = ops::slice(spread, ranges);
  return {d_x, c.needs(1) ? ops::subtract(sum_all(c.d_result()), sum_all(d_x)) : Value{}};
}

// If the operand is partial, only one of the summed devices pads with the value.
Value outside_pad(LocalizeContext& context, int) { return counted_once(context, context.operands[1]); }

Value localize_pad(LocalizeContext& context) {
  auto padding = context.view.as<PadAttributes>().padding;
  for (int d = 0; d < isize(padding); ++d)
    if (const LocalWindow* window = context.window(0, d))
      at(padding, d) = {window->low, window->high, step_of(context.view, d) - 1};
  const bool is_there =
      std::all_of(padding.begin(), padding.end(), [](const PaddingDim& dim) { return dim == PaddingDim{}; });
  if (is_there) return context.operands[0];  // the result consists of neighbours' rows
  return emit_local(context, {context.operands[0], counted_once(context, context.operands[1])},
                    make_attributes(PadAttributes{std::move(padding)}));
}

Linearity linearity_pad(const OpView&, int operand) { return operand == 0 ? Linearity::kAny : Linearity::kNone; }

}  // namespace

const OpDef kPad{
    .name = "pad",
    .min_operands = 2,
    .max_operands = 2,
    .parse = parse_attributes<PadAttributes>,
    .infer = infer_pad,
    .evaluate = evaluate_pad,
    .gradient_kind = GradientKind::kFunction,
    .gradient = gradient_pad,
    .batch = batch_pad,
    .factors = factors_pad,
    .linearity = linearity_pad,
    .localize = localize_pad,
    .outside = outside_pad,
    .flops = no_flops,
};

}  // namespace rows

Value ops::pad(Value x, Value padding_value, std::vector<PaddingDim> padding) {
  return x.builder->emit(rows::kPad, {x, padding_value}, make_attributes(PadAttributes{std::move(padding)}));
}

}  // namespace tessera
