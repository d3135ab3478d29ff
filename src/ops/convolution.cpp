// SPDX-License-Identifier: Apache-2.0
// convolution: windows slide over lhs and are multiplied by rhs. Features are summed, within each group if there are
// several.
//
//   %y = f32[8,14,14,64] convolution(f32[8,28,28,32] %x, f32[3,3,32,64] %w),
//     window={size=3x3 stride=2x2 pad=0_1x0_1}, dim_labels=b01f_01io->b01f
//
// Shardings: batch, output features, groups and (partial) input features; image dims with halos, along the positions of
// either the result or the kernel (the kernel's gradient is a convolution whose kernel is an image).
#include <algorithm>

#include "batch_rules.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/base/checked.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"
#include "wide.h"
#include "window_support.h"

namespace tessera {
namespace rows {
namespace {

const ConvolutionAttributes& attributes_of(const OpView& view) { return view.as<ConvolutionAttributes>(); }

// ---- infer ----------------------------------------------------------------------------------------------------------

void check_groups(const ConvolutionAttributes& a, const Type& lhs, const Type& rhs) {
  const auto& labels = a.dim_labels;
  require(a.feature_group_count >= 1 && a.batch_group_count >= 1, "group counts {} and {} must be at least 1",
          a.feature_group_count, a.batch_group_count);
  require(a.feature_group_count == 1 || a.batch_group_count == 1, "features and the batch cannot both have groups");
  const auto features = at(lhs.dims(), labels.lhs_feature);
  const auto batch = at(lhs.dims(), labels.lhs_batch);
  const auto inputs = at(rhs.dims(), labels.rhs_input);
  const auto outputs = at(rhs.dims(), labels.rhs_output);
  require(features == (Checked(inputs) * a.feature_group_count).value_or_most(),
          "lhs has {} features (dim {}), rhs takes {} (dim {}) in each of {} groups", features, labels.lhs_feature,
          inputs, labels.rhs_input, a.feature_group_count);
  require(outputs % a.feature_group_count == 0 && outputs % a.batch_group_count == 0,
          "{} output features do not divide into {} groups", outputs,
          std::max(a.feature_group_count, a.batch_group_count));
  require(batch % a.batch_group_count == 0, "a batch of {} does not divide into {} groups", batch, a.batch_group_count);
}

Type infer_convolution(const OpView& view) {
  const Type& lhs = array_operand(view, 0);
  const Type& rhs = array_operand(view, 1);
  const auto& a = attributes_of(view);
  const auto& labels = a.dim_labels;
  const int ndim = isize(labels.lhs_spatial) + 2;
  require(lhs.dtype() == rhs.dtype(), "element types differ: lhs is {}, rhs is {}; convert one of them",
          dtype_name(lhs.dtype()), dtype_name(rhs.dtype()));
  require(
      lhs.ndim() == ndim && rhs.ndim() == ndim, "dim_labels={} needs {} dims, lhs has {}, rhs has {}",
      [&] { return field_text(labels); }, ndim, lhs.ndim(), rhs.ndim());
  check_window(a.window, ndim - 2);
  check_groups(a, lhs, rhs);
  Dims dims(static_cast<std::size_t>(ndim));
  at(dims, labels.result_batch) = at(lhs.dims(), labels.lhs_batch) / a.batch_group_count;
  at(dims, labels.result_feature) = at(rhs.dims(), labels.rhs_output);
  for (int i = 0; i < ndim - 2; ++i) {
    const WindowDim& w = at(a.window.dims, i);
    const auto size = at(rhs.dims(), at(labels.rhs_spatial, i));
    require(w.size == size, "window dim {} is {} wide, rhs dim {} is {}", i, w.size, at(labels.rhs_spatial, i), size);
    const auto dim = static_cast<int>(at(labels.lhs_spatial, i));
    at(dims, at(labels.result_spatial, i)) = window_count(w, lhs.dim(dim), dim);
  }
  const DType dtype = view.result.is_array() ? view.result.dtype() : lhs.dtype();
  return declared_or(view, Type::array(dtype, std::move(dims)));
}

// ---- evaluation -----------------------------------------------------------------------------------------------------

// Pairs (offset in lhs, offset in rhs) that one position of the result multiplies, without batch and features.
using Taps = std::vector<std::pair<std::int64_t, std::int64_t>>;

struct Geometry {
  const ConvolutionAttributes& a;
  Dims lhs, rhs, lhs_strides, rhs_strides;

  explicit Geometry(const OpView& view)
      : a(attributes_of(view)),
        lhs(view.operands[0].dims()),
        rhs(view.operands[1].dims()),
        lhs_strides(row_major_strides(lhs)),
        rhs_strides(row_major_strides(rhs)) {}

  void taps(const Dims& position, Taps& out) const {
    out.assign(1, {0, 0});
    Taps next;
    for (int i = 0; i < isize(position); ++i) {
      const WindowDim& w = at(a.window.dims, i);
      const auto l = at(a.dim_labels.lhs_spatial, i);
      const auto r = at(a.dim_labels.rhs_spatial, i);
      next.clear();
      const auto [first, limit] = w.taps(at(position, i), at(lhs, l));
      for (std::int64_t k = first; k < limit; ++k) {
        const auto element = w.element_at(at(position, i) * w.stride - w.low + k * w.dilation, at(lhs, l));
        if (element < 0) continue;
        const auto tap = w.reversed ? w.size - 1 - k : k;
        for (const auto& [x, y] : out)
          next.emplace_back(x + element * at(lhs_strides, l), y + tap * at(rhs_strides, r));
      }
      out = next;
    }
  }
};

template <class W>
void convolve(const EvalContext& context, Literal& out) {
  const Geometry geometry(context.view);
  const auto& a = geometry.a;
  const auto& labels = a.dim_labels;
  const auto lhs = widened<W>(context.operands[0]);
  const auto rhs = widened<W>(context.operands[1]);
  std::vector<W> sums(static_cast<std::size_t>(out.type().element_count()));
  const Dims strides = row_major_strides(out.type().dims());
  const auto batch = at(out.type().dims(), labels.result_batch);
  const auto outputs = at(out.type().dims(), labels.result_feature);
  const auto inputs = at(geometry.rhs, labels.rhs_input);
  const auto lhs_feature = at(geometry.lhs_strides, labels.lhs_feature);
  const auto rhs_input = at(geometry.rhs_strides, labels.rhs_input);
  Dims spatial;
  for (const auto d : labels.result_spatial) spatial.push_back(at(out.type().dims(), d));
  Taps taps;
  for_each_index(spatial, [&](const Dims& position) {
    geometry.taps(position, taps);
    std::int64_t place = 0;
    for (int i = 0; i < isize(position); ++i) place += at(position, i) * at(strides, at(labels.result_spatial, i));
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t f = 0; f < outputs; ++f) {
        const auto row = b + batch * (f / (outputs / a.batch_group_count));
        const auto first = inputs * (f / (outputs / a.feature_group_count));
        const auto x = row * at(geometry.lhs_strides, labels.lhs_batch) + first * lhs_feature;
        const auto y = f * at(geometry.rhs_strides, labels.rhs_output);
        W& total = at(sums, place + b * at(strides, labels.result_batch) + f * at(strides, labels.result_feature));
        for (const auto& [dx, dy] : taps)
          for (std::int64_t c = 0; c < inputs; ++c)
            total += at(lhs, x + dx + c * lhs_feature) * at(rhs, y + dy + c * rhs_input);
      }
  });
  narrow(sums, out);
}

Literal evaluate_convolution(const EvalContext& context) {
  if (has_narrow(context)) return evaluate_widened(context, evaluate_convolution);
  Literal out(context.view.result);
  if (out.type().element_count() == 0) return out;
  visit_wide(context.operands[0].type().dtype(), out.type().dtype(), [&]<class W>() { convolve<W>(context, out); });
  return out;
}

// ---- factors_convolution, localize_convolution, flops ---------------------------------------------------------------------------------------

struct MapBuilder {
  const OpView& view;
  FactorMap map{};
  TensorFactors lhs{view.operands[0].dims().size()};
  TensorFactors rhs{view.operands[1].dims().size()};
  TensorFactors result{view.result.dims().size()};

  // If there are several groups, the group is the major factor of grouped dims.
  void add_batch_and_features() {
    const auto& a = attributes_of(view);
    const auto& labels = a.dim_labels;
    const auto groups = std::max(a.feature_group_count, a.batch_group_count);
    const auto outputs = at(view.operands[1].dims(), labels.rhs_output);
    if (groups > 1) {
      const int group = map.add(groups);
      at(lhs, a.feature_group_count > 1 ? labels.lhs_feature : labels.lhs_batch) = {group};
      at(rhs, labels.rhs_output) = {group};
      at(result, labels.result_feature) = {group};
    }
    const int batch = map.add(at(view.result.dims(), labels.result_batch));
    const int output = map.add(outputs / groups);
    const int input = map.add(at(view.operands[1].dims(), labels.rhs_input), FactorKind::kReduce);
    at(lhs, labels.lhs_batch).push_back(batch);
    at(result, labels.result_batch).push_back(batch);
    at(rhs, labels.rhs_output).push_back(output);
    at(result, labels.result_feature).push_back(output);
    at(lhs, labels.lhs_feature).push_back(input);
    at(rhs, labels.rhs_input).push_back(input);
  }

  void add_image_dim(int i) {
    const auto& a = attributes_of(view);
    const WindowDim& w = at(a.window.dims, i);
    const auto l = static_cast<int>(at(a.dim_labels.lhs_spatial, i));
    const auto r = at(a.dim_labels.rhs_spatial, i);
    const auto o = at(a.dim_labels.result_spatial, i);
    const auto count = at(view.result.dims(), o);
    const int position = map.add(count, is_trivial(w) ? FactorKind::kPass : FactorKind::kPermute);
    at(lhs, l) = {position};
    at(result, o) = {position};
    if (is_trivial(w)) return;
    map.windows.push_back({.operand = 0,
                           .dim = l,
                           .factor = position,
                           .stride = w.stride,
                           .low = w.low,
                           .dilation = w.base_dilation,
                           .extent = w.extent()});
    if (w.size == 1) return;
    const int tap = map.add(w.size, FactorKind::kReduce);
    at(lhs, l).push_back(tap);
    at(rhs, r) = {tap};
    map.windows.push_back({.operand = 0,
                           .dim = l,
                           .factor = tap,
                           .stride = w.dilation,
                           .low = w.low,
                           .dilation = w.base_dilation,
                           .extent = (count - 1) * w.stride + 1,
                           .reversed = w.reversed});
  }
};

FactorMap factors_convolution(const OpView& view) {
  MapBuilder builder{view};
  builder.add_batch_and_features();
  for (int i = 0; i < isize(attributes_of(view).window.dims); ++i) builder.add_image_dim(i);
  builder.map.operands = {std::move(builder.lhs), std::move(builder.rhs)};
  builder.map.results = {std::move(builder.result)};
  if (view.result.dtype() == DType::kPred) builder.map.reduction = Reduction::kOr;
  return std::move(builder.map);
}

Value outside_convolution(LocalizeContext& context, int) {
  return ops::scalar(context.builder, context.view.operands[0].dtype(), 0);
}

// Uses the local size of the kernel, windows that begin at the local lhs, and the number of local groups.
Value localize_convolution(LocalizeContext& context) {
  ConvolutionAttributes a = attributes_of(context.view);
  const auto& labels = a.dim_labels;
  const Type& lhs = context.operands[0].type();
  const Type& rhs = context.operands[1].type();
  for (int i = 0; i < isize(a.window.dims); ++i) {
    WindowDim& w = at(a.window.dims, i);
    w.size = at(rhs.dims(), at(labels.rhs_spatial, i));
    if (const LocalWindow* window = context.window(0, static_cast<int>(at(labels.lhs_spatial, i)))) {
      w.low = window->low;
      w.high = window->high;
    }
  }
  const auto inputs = at(rhs.dims(), labels.rhs_input);
  const auto batch = at(context.local_result().dims(), labels.result_batch);
  if (a.feature_group_count > 1 && inputs > 0) a.feature_group_count = at(lhs.dims(), labels.lhs_feature) / inputs;
  if (a.batch_group_count > 1 && batch > 0) a.batch_group_count = at(lhs.dims(), labels.lhs_batch) / batch;
  return emit_local(context, context.operands, make_attributes(std::move(a)));
}

// Counts products with actual elements, which excludes padding and holes.
double flops_convolution(const OpView& view) {
  const auto& a = attributes_of(view);
  const auto& labels = a.dim_labels;
  double total = 2.0 * static_cast<double>(at(view.result.dims(), labels.result_batch)) *
                 static_cast<double>(at(view.result.dims(), labels.result_feature)) *
                 static_cast<double>(at(view.operands[1].dims(), labels.rhs_input));
  for (int i = 0; i < isize(a.window.dims); ++i) {
    const WindowDim& w = at(a.window.dims, i);
    const auto n = at(view.operands[0].dims(), at(labels.lhs_spatial, i));
    std::int64_t products = 0;
    for (std::int64_t o = 0; o < at(view.result.dims(), at(labels.result_spatial, i)); ++o)
      if (w.base_dilation == 1)
        products += std::max<std::int64_t>(w.taps(o, n).limit - w.taps(o, n).first, 0);
      else
        for (auto [k, limit] = w.taps(o, n); k < limit; ++k)
          products += w.element_at(o * w.stride - w.low + k * w.dilation, n) >= 0 ? 1 : 0;
    total *= static_cast<double>(products);
  }
  return total;
}

// ---- gradient -------------------------------------------------------------------------------------------------------

// Moves the major part `groups` of dim `from` before dim `to`.
Value regrouped(Value x, std::int64_t from, std::int64_t to, std::int64_t groups) {
  if (groups == 1) return x;
  Dims split = x.type().dims();
  at(split, from) /= groups;
  split.insert(split.begin() + from, groups);
  Dims order;
  for (std::int64_t d = 0; d < x.type().ndim(); ++d) {
    if (d == to) order.push_back(from);
    order.push_back(d < from ? d : d + 1);
  }
  Dims merged = x.type().dims();
  at(merged, from) /= groups;
  at(merged, to) *= groups;
  return ops::reshape(ops::transpose(ops::reshape(x, split), order), merged);
}

// The result's gradient_convolution, dilated by the stride, convolved with the reversed kernel.
Value gradient_of_lhs(GradientContext& c, const ConvolutionAttributes& a) {
  const auto& labels = a.dim_labels;
  const auto groups = std::max(a.feature_group_count, a.batch_group_count);
  ConvolutionAttributes back;
  back.feature_group_count = groups;
  back.dim_labels = {labels.result_batch, labels.result_feature, labels.result_spatial,
                     labels.rhs_output,   labels.rhs_input,      labels.rhs_spatial,
                     labels.lhs_batch,    labels.lhs_feature,    labels.lhs_spatial};
  for (int i = 0; i < isize(a.window.dims); ++i) {
    const WindowDim& w = at(a.window.dims, i);
    const auto n = at(c.view.operands[0].dims(), at(labels.lhs_spatial, i));
    const auto m = at(c.view.result.dims(), at(labels.result_spatial, i));
    WindowDim v{.size = w.size,
                .stride = w.base_dilation,
                .low = w.extent() - 1 - w.low,
                .high = 0,
                .base_dilation = w.stride,
                .dilation = w.dilation,
                .reversed = !w.reversed};
    v.high = (n - 1) * w.base_dilation + w.extent() - (m - 1) * w.stride - 1 - v.low;
    back.window.dims.push_back(v);
  }
  const Value kernel = regrouped(c.operand(1), labels.rhs_output, labels.rhs_input, groups);
  const Value d = ops::convert(c.d_result(), kernel.type().dtype());
  const Value out = ops::convolution(d, kernel, back);
  return a.batch_group_count > 1 ? regrouped(out, labels.lhs_feature, labels.lhs_batch, groups) : out;
}

// lhs convolved with the result's gradient: the features of this kernel are the batch, and its batch is summed.
Value gradient_of_rhs(GradientContext& c, const ConvolutionAttributes& a) {
  const auto& labels = a.dim_labels;
  ConvolutionAttributes back;
  back.feature_group_count = a.batch_group_count;
  back.batch_group_count = a.feature_group_count;
  back.dim_labels = {labels.lhs_feature,  labels.lhs_batch,      labels.lhs_spatial,
                     labels.result_batch, labels.result_feature, labels.result_spatial,
                     labels.rhs_input,    labels.rhs_output,     labels.rhs_spatial};
  Dims reversed;
  for (int i = 0; i < isize(a.window.dims); ++i) {
    const WindowDim& w = at(a.window.dims, i);
    const auto n = at(c.view.operands[0].dims(), at(labels.lhs_spatial, i));
    const auto m = at(c.view.result.dims(), at(labels.result_spatial, i));
    WindowDim v{.size = m,
                .stride = w.dilation,
                .low = w.low,
                .high = 0,
                .base_dilation = w.base_dilation,
                .dilation = w.stride,
                .reversed = false};
    v.high = w.extent() + (m - 1) * w.stride - (n - 1) * w.base_dilation - 1 - w.low;
    back.window.dims.push_back(v);
    if (w.reversed) reversed.push_back(at(labels.rhs_spatial, i));
  }
  const Value lhs = c.operand(0);
  const Value out = ops::convolution(lhs, ops::convert(c.d_result(), lhs.type().dtype()), back);
  return reversed.empty() ? out : ops::reverse(out, reversed);
}

std::vector<Value> gradient_convolution(GradientContext& c) {
  const auto& a = attributes_of(c.view);
  std::vector<Value> out(2);
  const bool empty = c.view.result.element_count() == 0 || c.view.operands[0].element_count() == 0 ||
                     c.view.operands[1].element_count() == 0;
  for (int i = 0; i < 2; ++i) {
    if (!c.needs(i)) continue;
    if (empty)
      at(out, i) = full_like(c.operand(i), 0);
    else
      at(out, i) = i == 0 ? gradient_of_lhs(c, a) : gradient_of_rhs(c, a);
  }
  return out;
}

}  // namespace

const OpDef kConvolution{
    .name = "convolution",
    .min_operands = 2,
    .max_operands = 2,
    .parse = parse_attributes<ConvolutionAttributes>,
    .infer = infer_convolution,
    .evaluate = evaluate_convolution,
    .gradient_kind = GradientKind::kFunction,
    .gradient = gradient_convolution,
    .batch = batch_convolution,
    .factors = factors_convolution,
    .linearity = linear,
    .localize = localize_convolution,
    .outside = outside_convolution,
    .flops = flops_convolution,
};

}  // namespace rows

Value ops::convolution(Value lhs, Value rhs, ConvolutionAttributes attributes) {
  return lhs.builder->emit(rows::kConvolution, {lhs, rhs}, make_attributes(std::move(attributes)));
}

}  // namespace tessera
