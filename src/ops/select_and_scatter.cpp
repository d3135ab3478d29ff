// SPDX-License-Identifier: Apache-2.0
// select-and-scatter: adds each element of the source to one element of its window of the operand, the one that
// `select` prefers. Elements that no window reaches are the init value. It is the gradient of a maximum over windows.
//
//   %d = f32[8,28,28,64] select-and-scatter(%x, %source, %zero), select=%ge, scatter=%add,
//        window={size=1x2x2x1 stride=1x2x2x1}
#include <algorithm>
#include <limits>
#include <optional>

#include "batch_rules.h"
#include "elementwise_support.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"
#include "window_support.h"

namespace tessera {
namespace rows {
namespace {

std::int64_t floor_of(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// The first window that can reach element 0, and the number of elements between its start and element 0.
std::int64_t first_window(const WindowDim& w) { return -floor_of(w.size - 1 - w.low, w.stride); }
std::int64_t lead(const WindowDim& w) { return w.low - first_window(w) * w.stride; }

bool prefers_greater(CompareDirection direction) {
  return direction == CompareDirection::kGe || direction == CompareDirection::kGt;
}
bool prefers_lesser(CompareDirection direction) {
  return direction == CompareDirection::kLe || direction == CompareDirection::kLt;
}

// ---- infer ----------------------------------------------------------------------------------------------------------

void check_computation(const OpView& view, int which, std::string_view name, const Type& result) {
  const Computation& callee = *at(view.called, which);
  const Type element = Type::scalar(view.operands[0].dtype());
  require(callee.parameter_types() == std::vector<Type>({element, element}) && callee.root_type() == result,
          "{} %{} must take two {} and return {}", name, callee.name, element, result);
}

Type infer_select_and_scatter(const OpView& view) {
  const Type& x = array_operand(view, 0);
  const Type& source = array_operand(view, 1);
  const Type& init = scalar_operand(view, 2, "the init");
  const WindowDims window{window_dims(view)};
  check_window(window, x.ndim());
  require(source.dtype() == x.dtype() && init.dtype() == x.dtype(),
          "operand, source and init must have the same element type, got {}, {} and {}", x, source, init);
  require(source.ndim() == x.ndim(), "the source has {} dims, the operand {}", source.ndim(), x.ndim());
  for (int d = 0; d < x.ndim(); ++d) {
    const WindowDim& w = at(window.dims, d);
    require(w.dilation == 1 && w.base_dilation == 1, "window dim {}: must not be dilated", d);
    const std::int64_t count = window_count(w, x.dim(d), d);
    require(source.dim(d) == count, "dim {}: the operand has {} windows, the source {} elements", d, count,
            source.dim(d));
  }
  require(view.called.size() == 2, "needs two computations, select and scatter");
  check_computation(view, 0, "select", Type::scalar(DType::kPred));
  check_computation(view, 1, "scatter", Type::scalar(x.dtype()));
  return declared_or(view, x);
}

// ---- evaluation -----------------------------------------------------------------------------------------------------

// Whether `select` keeps element a before element b.
bool keeps(const EvalContext& context, const std::optional<CompareDirection>& direction, std::int64_t a,
           std::int64_t b) {
  const Literal& x = context.operands[0];
  if (direction && is_float(x.type().dtype()))
    return holds(*direction, element_as_double(x, a), element_as_double(x, b));
  return context.call(0, {scalar_at(x, a), scalar_at(x, b)}).data<bool>()[0];
}

// The preferred element of the window at `position`; -1 if no element of the window is within the operand.
std::int64_t selected(const EvalContext& context, const std::vector<WindowDim>& window, const Dims& strides,
                      const Dims& position, const std::optional<CompareDirection>& direction) {
  Dims first;
  Dims sizes;
  for (std::size_t d = 0; d < window.size(); ++d) {
    const auto taps = window[d].taps(position[d], context.view.operands[0].dims()[d]);
    first.push_back(taps.first);
    sizes.push_back(std::max<std::int64_t>(taps.limit - taps.first, 0));
  }
  std::int64_t best = -1;
  const auto compare_with = [&](const Dims& tap) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < tap.size(); ++d) {
      const auto n = context.view.operands[0].dims()[d];
      const auto i = window[d].element_at(position[d] * window[d].stride - window[d].low + first[d] + tap[d], n);
      if (i < 0) return;
      offset += i * strides[d];
    }
    if (best < 0 || !keeps(context, direction, best, offset)) best = offset;
  };
  for_each_index(sizes, compare_with);
  return best;
}

Literal evaluate_select_and_scatter(const EvalContext& context) {
  if (has_narrow(context)) return evaluate_widened(context, evaluate_select_and_scatter);
  Literal out = splat_literal(context.operands[2], context.view.result);
  const auto window = window_dims(context.view);
  const Dims strides = row_major_strides(out.type().dims());
  const auto direction = comparison_of(*context.view.called[0]);
  std::int64_t next = 0;
  for_each_index(context.operands[1].type().dims(), [&](const Dims& position) {
    const std::int64_t i = next++;
    const auto target = selected(context, window, strides, position, direction);
    if (target < 0) return;
    const Literal sum = context.call(1, {scalar_at(out, target), scalar_at(context.operands[1], i)});
    strided_copy(sum, {0, {}}, out, {target, {}}, {});
  });
  return out;
}

// ---- factors_select_and_scatter, localize ----------------------------------------------------------------------------------------------

bool can_be_filled(const OpView& view) {
  const auto direction = comparison_of(*view.called[0]);
  return direction && (prefers_greater(*direction) || prefers_lesser(*direction)) &&
         reduction_of(*view.called[1]) == Reduction::kSum;
}

// A tile of the result needs the windows that reach it, and all elements that these read.
FactorMap factors_select_and_scatter(const OpView& view) {
  const auto window = window_dims(view);
  FactorMap map;
  TensorFactors dims;
  for (int d = 0; d < view.result.ndim(); ++d) {
    const WindowDim& w = at(window, d);
    const int factor = map.add(view.result.dim(d), is_trivial(w) ? FactorKind::kPass : FactorKind::kPermute);
    dims.push_back({factor});
    if (is_trivial(w) || !can_be_filled(view)) continue;
    // The last window of the tile, without the tile's length.
    const auto last = floor_of(w.low - 1, w.stride) - first_window(w);
    map.windows.push_back({.operand = 0,
                           .dim = d,
                           .factor = factor,
                           .stride = 1,
                           .low = lead(w),
                           .dilation = 1,
                           .extent = last * w.stride + w.size + 1});
    map.windows.push_back({.operand = 1,
                           .dim = d,
                           .factor = factor,
                           .stride = 1,
                           .low = w.size - 1 - w.low,
                           .dilation = w.stride,
                           .extent = w.size});
  }
  map.operands = {dims, dims, {}};
  map.results = {dims};
  return map;
}

Linearity linearity_select_and_scatter(const OpView& view, int operand) {
  return operand == 1 && reduction_of(*view.called[1]) == Reduction::kSum ? Linearity::kLinear : Linearity::kNone;
}

// The value next to the extreme one: the largest or least finite number.
Value next_to_extreme(Builder& builder, DType dtype, bool greater) {
  return ops::constant(
      builder, visit_dtype(dtype, [&]<class T>() {
        if constexpr (is_float(kDTypeOf<T>)) {
          using Limits = std::numeric_limits<std::conditional_t<kDTypeOf<T> == DType::kF64, double, float>>;
          auto finite = static_cast<double>(Limits::max());
          if (kDTypeOf<T> == DType::kBF16) finite = 0x1.FEp127;
          if (kDTypeOf<T> == DType::kF16) finite = 65504;
          return Literal::scalar<T>(static_cast<T>(greater ? -finite : finite));
        } else {
          using Limits = std::numeric_limits<T>;
          return Literal::scalar<T>(static_cast<T>(greater ? Limits::lowest() + 1 : Limits::max() - 1));
        }
      }));
}

// Whether some window reads padding in any dim.
bool reads_padding(const OpView& view) {
  const auto window = window_dims(view);
  for (int d = 0; d < isize(window); ++d) {
    const WindowDim& w = at(window, d);
    const auto windows = view.operands[1].dim(d);
    if (w.low > 0 || (windows - 1) * w.stride + w.size - w.low > view.operands[0].dim(d)) return true;
  }
  return false;
}

// The value outside of the operand: one that is never preferred (no element may be equal to it, so infinities become
// the largest numbers), and source elements that add nothing. If only windows of such elements read beyond the ends,
// any value is allowed.
Value outside_select_and_scatter(LocalizeContext& context, int operand) {
  Builder& builder = context.builder;
  const DType dtype = context.view.operands[0].dtype();
  if (operand == 1) return ops::constant(builder, reduction_identity(Reduction::kSum, dtype));
  if (!reads_padding(context.view)) return {};
  const bool greater = prefers_greater(comparison_of(*context.view.called[0]).value());
  Value& x = context.operands[0];
  const Value bound = ops::splat(next_to_extreme(builder, dtype, greater), x.type().dims());
  x = greater ? ops::maximum(x, bound) : ops::minimum(x, bound);
  return ops::constant(builder, reduction_identity(greater ? Reduction::kMax : Reduction::kMin, dtype));
}

// Along sharded dims, complete windows are adjacent and have no padding; of their elements, those of the shard are
// kept.
Value localize_select_and_scatter(LocalizeContext& context) {
  WindowDims window = context.view.as<WindowAttributes>().window;
  const Value init = counted_once(context, context.operands[2]);
  const Type& operand = context.operands[0].type();
  const Type wanted = context.local_result();
  std::vector<PaddingDim> padding(window.dims.size());
  bool is_padded = false;
  for (int d = 0; d < isize(window.dims); ++d) {
    if (context.window(0, d) == nullptr) continue;
    WindowDim& w = at(window.dims, d);
    const auto start = lead(w);
    w.low = w.high = 0;
    at(padding, d) = {-start, wanted.dim(d) - operand.dim(d) + start, 0};
    is_padded = is_padded || at(padding, d) != PaddingDim{};
  }
  context.local_results = {operand.with_dtype(wanted.dtype())};
  const Value all = emit_local(context, {context.operands[0], context.operands[1], init},
                               make_attributes(WindowAttributes{std::move(window)}));
  return is_padded ? ops::pad(all, init, std::move(padding)) : all;
}

double flops_select_and_scatter(const OpView& view) {
  double window = 1;
  for (const WindowDim& w : window_dims(view)) window *= static_cast<double>(w.size);
  return window * static_cast<double>(view.operands[1].element_count());
}

// The gradient of an element of the source is that of the result at the position that its window selects.
std::vector<Value> gradient_select_and_scatter(GradientContext& c) {
  require(can_be_filled(c.view),
          "select-and-scatter has a gradient only if select compares by GE, GT, LE or LT and scatter adds; got %{} and "
          "%{}",
          c.view.called[0]->name, c.view.called[1]->name);
  std::vector<Value> out(3);
  if (c.needs(1))
    out[1] = at_selected(c.operand(0), c.d_result(), {window_dims(c.view)}, c.view.operands[1].dims(),
                         comparison_of(*c.view.called[0]).value());
  if (c.needs(2)) out[2] = sum_all(c.d_result());
  return out;
}

}  // namespace

const OpDef kSelectAndScatter{
    .name = "select-and-scatter",
    .min_operands = 3,
    .max_operands = 3,
    .called = {"select", "scatter"},
    .parse = parse_attributes<WindowAttributes>,
    .infer = infer_select_and_scatter,
    .evaluate = evaluate_select_and_scatter,
    .gradient_kind = GradientKind::kFunction,
    .gradient = gradient_select_and_scatter,
    .batch = batch_select_and_scatter,
    .factors = factors_select_and_scatter,
    .linearity = linearity_select_and_scatter,
    .localize = localize_select_and_scatter,
    .outside = outside_select_and_scatter,
    .flops = flops_select_and_scatter,
};

}  // namespace rows

std::optional<CompareDirection> comparison_of(const Computation& computation) {
  const Instruction& root = computation[computation.root];
  if (root.op != &rows::kCompare || computation.parameters.size() != 2) return std::nullopt;
  const auto direction = attributes_as<CompareAttributes>(root.attributes).direction;
  if (root.operands[0] == computation.parameters[0] && root.operands[1] == computation.parameters[1]) return direction;
  return std::nullopt;
}

Value ops::select_and_scatter(Value operand, Value source, Value init, WindowDims window, ComputationId select,
                              ComputationId scatter) {
  return operand.builder->emit(rows::kSelectAndScatter, {operand, source, init},
                               make_attributes(WindowAttributes{std::move(window)}), {.called = {select, scatter}});
}

}  // namespace tessera
