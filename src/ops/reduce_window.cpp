// SPDX-License-Identifier: Apache-2.0
// reduce-window: reduces the elements of every window to one. Positions beyond the ends, and holes between dilated
// elements, contribute nothing.
//
//   %m = f32[8,14,14,64] reduce-window(%x, %low), to_apply=%max,
//        window={size=1x3x3x1 stride=1x2x2x1 pad=0_0x0_1x0_1x0_0}
//   %p = (f32[4], s32[4]) reduce-window(%x, %i, %low, %none), window={size=2}, to_apply=%argmax
//        operands, then their init values
#include <algorithm>
#include <cmath>
#include <optional>

#include "batch_rules.h"
#include "reduce_support.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"
#include "window_support.h"

namespace tessera {
namespace rows {
namespace {

// ---- infer ----------------------------------------------------------------------------------------------------------

Type infer_reduce_window(const OpView& view) {
  const int n = input_count(view);
  require(isize(view.operands) == 2 * n, "needs an init per operand, got {} operands in all", view.operands.size());
  const Type& first = array_operand(view, 0);
  const WindowDims window{window_dims(view)};
  check_window(window, first.ndim());
  std::vector<Type> results;
  for (int i = 0; i < n; ++i) {
    const Type& x = checked_input(view, i);
    Dims dims;
    for (int d = 0; d < x.ndim(); ++d) dims.push_back(window_count(at(window.dims, d), x.dim(d), d));
    results.push_back(Type::array(x.dtype(), std::move(dims)));
  }
  check_to_apply(view);
  return declared_or(view, n == 1 ? results[0] : Type::tuple(std::move(results)));
}

// ---- evaluation -----------------------------------------------------------------------------------------------------

// The elements of a window, as offsets, in row-major order.
void window_elements(const std::vector<WindowDim>& window, const Dims& dims, const Dims& strides, const Dims& position,
                     std::vector<std::int64_t>& out) {
  out.assign(1, 0);
  std::vector<std::int64_t> next;
  for (std::size_t d = 0; d < window.size(); ++d) {
    const WindowDim& w = window[d];
    next.clear();
    const auto [first, limit] = w.taps(position[d], dims[d]);
    for (const auto offset : out)
      for (std::int64_t k = first; k < limit; ++k) {
        const auto element = w.element_at(position[d] * w.stride - w.low + k * w.dilation, dims[d]);
        if (element >= 0) next.push_back(offset + element * strides[d]);
      }
    out = next;
  }
}

template <class F>
void for_each_result(const OpView& view, const Dims& results, F&& f) {
  const auto window = window_dims(view);
  const Dims& dims = view.operands[0].dims();
  const Dims strides = row_major_strides(dims);
  std::vector<std::int64_t> elements;
  std::int64_t i = 0;
  for_each_index(results, [&](const Dims& position) {
    window_elements(window, dims, strides, position, elements);
    f(i++, elements);
  });
}

// Accumulates in double or 64 bits and rounds once.
Literal reduce_known(const EvalContext& context, Reduction reduction) {
  Literal out(context.view.result);
  visit_any_dtype(out.type().dtype(), [&]<class T>() {
    const auto from = context.operands[0].data<T>();
    const auto init = static_cast<Wide<T>>(context.operands[1].data<T>()[0]);
    auto to = out.mutable_data<T>();
    for_each_result(context.view, out.type().dims(), [&](std::int64_t i, const std::vector<std::int64_t>& elements) {
      Wide<T> total = init;
      for (const auto element : elements) total = combined(reduction, total, static_cast<Wide<T>>(at(from, element)));
      at(to, i) = static_cast<T>(total);
    });
  });
  return out;
}

// For any computation: reduces in row-major order.
Literal reduce_by_calls(const EvalContext& context) {
  const auto n = static_cast<std::size_t>(input_count(context.view));
  const std::vector<Type> types = context.view.result.leaves();
  std::vector<Literal> out(types.begin(), types.end());
  for_each_result(context.view, types[0].dims(), [&](std::int64_t i, const std::vector<std::int64_t>& elements) {
    std::vector<Literal> state(context.operands.begin() + static_cast<std::ptrdiff_t>(n), context.operands.end());
    for (const auto element : elements) {
      for (std::size_t k = 0; k < n; ++k) {
        Literal x(Type::scalar(types[k].dtype()));
        strided_copy(context.operands[k], {element, {}}, x, {0, {}}, {});
        state.push_back(std::move(x));
      }
      state = context.call(0, state).leaves();
    }
    for (std::size_t k = 0; k < n; ++k) strided_copy(state[k], {0, {}}, out[k], {i, {}}, {});
  });
  return n == 1 ? out[0] : Literal::tuple(std::move(out));
}

Literal evaluate_reduce_window(const EvalContext& context) {
  if (has_narrow(context)) return evaluate_widened(context, evaluate_reduce_window);
  if (const auto reduction = known_reduction(context.view)) return reduce_known(context, *reduction);
  return reduce_by_calls(context);
}

// ---- factors_reduce_window, linearity_reduce_window, localize_reduce_window, flops ----------------------------------------------------------------------------

// Positions beyond a shard can only be filled if the reduction has an identity.
FactorMap factors_reduce_window(const OpView& view) {
  const auto n = static_cast<std::size_t>(input_count(view));
  const Type result = view.result.leaves().front();
  const auto window = window_dims(view);
  FactorMap map;
  TensorFactors dims;
  for (int d = 0; d < result.ndim(); ++d) {
    const WindowDim& w = at(window, d);
    const int factor = map.add(result.dim(d), is_trivial(w) ? FactorKind::kPass : FactorKind::kPermute);
    dims.push_back({factor});
    if (is_trivial(w) || !known_reduction(view)) continue;
    map.windows.push_back({.operand = 0,
                           .dim = d,
                           .factor = factor,
                           .stride = w.stride,
                           .low = w.low,
                           .dilation = w.base_dilation,
                           .extent = w.extent()});
  }
  map.operands.assign(n, dims);
  map.operands.resize(2 * n);  // inits have no dims
  map.results.assign(n, dims);
  return map;
}

Linearity linearity_reduce_window(const OpView& view, int operand) {
  return operand == 0 && known_reduction(view) == Reduction::kSum ? Linearity::kLinear : Linearity::kNone;
}

Value outside_reduce_window(LocalizeContext& context, int) {
  return ops::constant(context.builder,
                       reduction_identity(known_reduction(context.view).value(), context.view.operands[0].dtype()));
}

// If the result is partial, the init value counts on one device only.
Value localize_reduce_window(LocalizeContext& context) {
  std::vector<Value> operands = context.operands;
  if (operands.size() == 2) operands[1] = counted_once(context, operands[1]);
  WindowDims window = context.view.as<WindowAttributes>().window;
  for (int d = 0; d < isize(window.dims); ++d)
    if (const LocalWindow* local = context.window(0, d)) {
      at(window.dims, d).low = local->low;
      at(window.dims, d).high = local->high;
    }
  return emit_local(context, operands, make_attributes(WindowAttributes{std::move(window)}));
}

double flops_reduce_window(const OpView& view) {
  double window = 1;
  for (const WindowDim& w : window_dims(view)) window *= static_cast<double>(w.size);
  return window * static_cast<double>(view.result.leaves().front().element_count()) * input_count(view);
}

// ---- gradient -------------------------------------------------------------------------------------------------------

// The window from the operand's point of view.
WindowDims turned(const OpView& view) {
  WindowDims out;
  const auto window = window_dims(view);
  for (int d = 0; d < isize(window); ++d) {
    const WindowDim& w = at(window, d);
    const auto n = view.operands[0].dim(d);
    const auto m = view.result.dim(d);
    WindowDim v{.size = w.size,
                .stride = w.base_dilation,
                .low = w.extent() - 1 - w.low,
                .high = 0,
                .base_dilation = w.stride,
                .dilation = w.dilation,
                .reversed = false};
    v.high = (n - 1) * w.base_dilation + w.extent() - (m - 1) * w.stride - 1 - v.low;
    out.dims.push_back(v);
  }
  return out;
}

bool is_identity_reduce_window(Value init, Reduction reduction) {
  const Instruction& maker = init.instruction();
  return maker.op->role == Role::kConstant && attributes_as<ConstantAttributes>(maker.attributes).value ==
                                                  reduction_identity(reduction, init.type().dtype());
}

// The gradient belongs to the first extremal element of a window, or to the init value if that is the extremum.
std::vector<Value> gradient_extremum(GradientContext& c, Reduction reduction) {
  const Value x = c.operand(0);
  const WindowDims window{window_dims(c.view)};
  Value flow = c.d_result();
  std::vector<Value> out(2);
  if (c.needs(1) || !is_identity_reduce_window(c.operand(1), reduction)) {
    const Value init = ops::splat(c.operand(1), c.result.type().dims());
    const Value won = ops::compare(c.result, init, CompareDirection::kEq);
    const Value nothing = full_like(flow, 0);
    if (c.needs(1)) out[1] = sum_all(ops::select(won, flow, nothing));
    flow = ops::select(won, nothing, flow);
  }
  if (!c.needs(0)) return out;
  const auto is_dilated = [](const WindowDim& w) { return w.dilation != 1 || w.base_dilation != 1; };
  if (std::any_of(window.dims.begin(), window.dims.end(), is_dilated)) {  // select-and-scatter takes no such windows
    out[0] = flow_to_extrema(x, c.result, flow, window);
    return out;
  }
  const DType dtype = x.type().dtype();
  ProgramBuilder& program = c.builder.program();
  Builder select = program.computation(reduction == Reduction::kMax ? "ge" : "le");
  const Value a = ops::parameter(select, 0, Type::scalar(dtype), "a");
  const Value b = ops::parameter(select, 1, Type::scalar(dtype), "b");
  const Value keeps = ops::compare(a, b, reduction == Reduction::kMax ? CompareDirection::kGe : CompareDirection::kLe);
  const ComputationId select_id = program.add(std::move(select), keeps);
  out[0] = ops::select_and_scatter(x, flow, ops::scalar(c.builder, dtype, 0), window, select_id,
                                   ops::reduction_computation(program, Reduction::kSum, dtype));
  return out;
}

std::vector<Value> gradient_reduce_window(GradientContext& c) {
  const auto reduction = known_reduction(c.view);
  require(reduction.has_value(), "reduce-window by %{} has no gradient_reduce_window; only sum, min and max have one",
          c.view.called[0]->name);
  const Type& x = c.view.operands[0];
  if (x.element_count() == 0 || c.view.result.element_count() == 0)
    return {c.needs(0) ? full_like(c.operand(0), 0) : Value{}, c.needs(1) ? sum_all(c.d_result()) : Value{}};
  if (*reduction == Reduction::kMin || *reduction == Reduction::kMax) return gradient_extremum(c, *reduction);
  require(*reduction == Reduction::kSum, "reduce-window by {} has no gradient", reduction_name(*reduction));
  return {c.needs(0) ? ops::reduce_window(c.d_result(), Reduction::kSum, turned(c.view)) : Value{},
          c.needs(1) ? sum_all(c.d_result()) : Value{}};
}

}  // namespace

const OpDef kReduceWindow{
    .name = "reduce-window",
    .min_operands = 2,
    .max_operands = -1,
    .called = {"to_apply"},
    .parse = parse_attributes<WindowAttributes>,
    .infer = infer_reduce_window,
    .evaluate = evaluate_reduce_window,
    .gradient_kind = GradientKind::kFunction,
    .gradient = gradient_reduce_window,
    .batch = batch_reduce_window,
    .factors = factors_reduce_window,
    .linearity = linearity_reduce_window,
    .localize = localize_reduce_window,
    .outside = outside_reduce_window,
    .flops = flops_reduce_window,
};

}  // namespace rows

Value ops::reduce_window(const std::vector<Value>& operands, const std::vector<Value>& inits, WindowDims window,
                         ComputationId computation) {
  require(!operands.empty(), "reduce-window: needs at least one operand");
  std::vector<Value> all = operands;
  all.insert(all.end(), inits.begin(), inits.end());
  return operands.front().builder->emit(rows::kReduceWindow, all, make_attributes(WindowAttributes{std::move(window)}),
                                        {.called = {computation}});
}
Value ops::reduce_window(Value x, Reduction reduction, WindowDims window) {
  Builder& builder = *x.builder;
  require(x.type().is_array(), "reduce-window: an array is needed, got {}", x.type());
  const DType dtype = x.type().dtype();
  const Value init = constant(builder, reduction_identity(reduction, dtype));
  return reduce_window({x}, {init}, std::move(window), reduction_computation(builder.program(), reduction, dtype));
}

}  // namespace tessera
