// SPDX-License-Identifier: Apache-2.0
//   %s = f32[2,3] slice(%x), slice={[1:5:2], [0:3]}     elements start, start+stride, … below limit
#include <fmt/format.h>

#include "batch_rules.h"
#include "row_support.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {

std::string field_text(const std::vector<SliceRange>& value) {
  std::vector<std::string> ranges;
  for (const auto& r : value)
    ranges.push_back(r.stride == 1 ? fmt::format("[{}:{}]", r.start, r.limit)
                                   : fmt::format("[{}:{}:{}]", r.start, r.limit, r.stride));
  return fmt::format("{{{}}}", fmt::join(ranges, ", "));
}

void parse_field(std::string_view text, std::vector<SliceRange>& value) {
  value.clear();
  text = trim(text);
  require(text.size() >= 2 && text.front() == '{' && text.back() == '}', "expected {{[start:limit], ..}}, got {}",
          text);
  for (const auto& item : split(trim(text.substr(1, text.size() - 2)), ',')) {
    const std::string_view range = trim(item);
    require(range.size() >= 2 && range.front() == '[' && range.back() == ']', "expected [start:limit:stride], got {}",
            range);
    const auto parts = split(range.substr(1, range.size() - 2), ':');
    require(parts.size() == 2 || parts.size() == 3, "expected [start:limit:stride], got {}", range);
    SliceRange r;
    parse_field(parts[0], r.start);
    parse_field(parts[1], r.limit);
    if (parts.size() == 3) parse_field(parts[2], r.stride);
    value.push_back(r);
  }
}

namespace rows {
namespace {

std::int64_t size_of(const SliceRange& r) { return ceil_div(r.limit - r.start, r.stride); }
// The distance between consecutive elements of the slice; 1 if there are fewer than two.
std::int64_t step_of(const SliceRange& r) { return size_of(r) < 2 ? 1 : r.stride; }
bool is_full_range(const SliceRange& r, std::int64_t size) { return r.start == 0 && r.limit == size && r.stride == 1; }

Type infer_slice(const OpView& view) {
  const Type& x = array_operand(view, 0);
  const auto& ranges = view.as<SliceAttributes>().slice;
  if (isize(ranges) != x.ndim()) fail("slice={} needs one range per dim of {}", field_text(ranges), x.str());
  Dims dims;
  for (int d = 0; d < x.ndim(); ++d) {
    const SliceRange& r = at(ranges, d);
    require(r.stride >= 1, "dim {}: stride {} must be at least 1", d, r.stride);
    require(r.start >= 0 && r.start <= r.limit && r.limit <= x.dim(d), "dim {}: [{}:{}] is outside of size {}", d,
            r.start, r.limit, x.dim(d));
    dims.push_back(size_of(r));
  }
  return declared_or(view, Type::array(x.dtype(), std::move(dims)));
}

Literal evaluate_slice(const EvalContext& context) {
  const Literal& x = context.operands[0];
  StridedSide source{0, row_major_strides(x.type().dims())};
  const auto& ranges = context.view.as<SliceAttributes>().slice;
  for (std::size_t d = 0; d < ranges.size(); ++d) {
    source.offset += ranges[d].start * source.strides[d];
    source.strides[d] *= step_of(ranges[d]);
  }
  Literal out(context.view.result);
  const Dims& dims = out.type().dims();
  strided_copy(x, source, out, {0, row_major_strides(dims)}, dims);
  return out;
}

FactorMap factors_slice(const OpView& view) {
  FactorMap map;
  const Type& x = view.operands[0];
  TensorFactors tensor;
  for (int d = 0; d < x.ndim(); ++d) {
    const SliceRange& r = at(view.as<SliceAttributes>().slice, d);
    const bool covers_dim = is_full_range(r, x.dim(d));
    const int factor = map.add(size_of(r), covers_dim ? FactorKind::kPass : FactorKind::kPermute);
    tensor.push_back({factor});
    if (!covers_dim) map.windows.push_back({.dim = d, .factor = factor, .stride = step_of(r), .low = -r.start});
  }
  map.operands = {tensor};
  map.results = {tensor};
  return map;
}

// Pads with zeros: start before, stride - 1 between elements, and the rest after them.
std::vector<Value> gradient_slice(GradientContext& c) {
  const Type& x = c.view.operands[0];
  if (c.view.result.element_count() == 0) return {ops::full(c.builder, x, 0)};
  std::vector<PaddingDim> padding;
  for (int d = 0; d < x.ndim(); ++d) {
    const SliceRange& r = at(c.view.as<SliceAttributes>().slice, d);
    const std::int64_t last = r.start + (size_of(r) - 1) * step_of(r);
    padding.push_back({r.start, x.dim(d) - last - 1, step_of(r) - 1});
  }
  return {ops::pad(c.d_result(), ops::scalar(c.builder, x.dtype(), 0), padding)};
}

// Complete ranges have the local size. In a sharded dim with a smaller range, the operand begins at the start of the
// range.
Value localize_slice(LocalizeContext& context) {
  auto ranges = context.view.as<SliceAttributes>().slice;
  for (int d = 0; d < isize(ranges); ++d) {
    const auto size = context.operands[0].type().dim(d);
    if (context.window(0, d) != nullptr)
      at(ranges, d) = {0, size, step_of(at(ranges, d))};
    else if (is_full_range(at(ranges, d), context.view.operands[0].dim(d)))
      at(ranges, d).limit = size;
  }
  return emit_local(context, context.operands, make_attributes(SliceAttributes{std::move(ranges)}));
}

}  // namespace

const OpDef kSlice{
    .name = "slice",
    .min_operands = 1,
    .max_operands = 1,
    .movement = Movement::kSlice,
    .takes_a_part = true,
    .parse = parse_attributes<SliceAttributes>,
    .infer = infer_slice,
    .evaluate = evaluate_slice,
    .gradient_kind = GradientKind::kFunction,
    .gradient = gradient_slice,
    .batch = batch_slice,
    .factors = factors_slice,
    .linearity = passes_all,
    .localize = localize_slice,
    .flops = no_flops,
};

}  // namespace rows

Value ops::slice(Value x, std::vector<SliceRange> ranges) {
  return x.builder->emit(rows::kSlice, {x}, make_attributes(SliceAttributes{std::move(ranges)}));
}
Value ops::slice_dim(Value x, int dim, std::int64_t start, std::int64_t limit) {
  std::vector<SliceRange> ranges;
  for (const auto size : x.type().dims()) ranges.push_back({0, size, 1});
  if (dim < 0 || dim >= isize(ranges)) fail("slice: dim {} is out of range for {}", dim, x.type().str());
  at(ranges, dim) = {start, limit, 1};
  return slice(x, std::move(ranges));
}

}  // namespace tessera
