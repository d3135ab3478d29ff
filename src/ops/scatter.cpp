// SPDX-License-Identifier: Apache-2.0
// scatter: combines windows of updates with the operand at computed indices. A window that is not within the operand is
// dropped completely. Updates of the same element are combined in row-major order of the indices.
//
//   %sums = f32[1000,64] scatter(f32[1000,64] %zeros, s32[4,1] %ids, f32[4,64] %rows), update_window_dims={1},
//     inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%add
//
// Shardings: batch dims and dims with complete windows pass; a one-wide scattered dim may stay sharded (rows of other
// devices are outside and thus dropped); sharded index dims make the result partial, and the operand then counts on one
// device only.
#include <fmt/format.h>

#include <algorithm>

#include "batch_rules.h"
#include "index_support.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace rows {
namespace {

// (operands.., indices, updates..)
int array_count(const OpView& view) { return isize(view.operands) / 2; }

constexpr WindowNames kNames = {"update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims",
                                "input_batching_dims", "scatter_indices_batching_dims"};

}  // namespace

Windows scatter_windows(const OpView& view) {
  const auto& a = view.as<ScatterAttributes>();
  const Type& operand = view.operands[0];
  Windows out{a.update_window_dims,
              a.inserted_window_dims,
              a.scatter_dims_to_operand_dims,
              a.input_batching_dims,
              a.scatter_indices_batching_dims,
              a.index_vector_dim,
              Dims(operand.dims().size(), 1),
              {},
              {},
              {}};
  const int count = array_count(view);
  out.complete(operand.ndim(), at(view.operands, count).ndim());
  const Type& updates = at(view.operands, count + 1);
  for (std::size_t k = 0; k < out.operand_dims.size() && k < out.window_dims.size(); ++k)
    if (out.window_dims[k] >= 0 && out.window_dims[k] < updates.ndim())
      at(out.sizes, out.operand_dims[k]) = updates.dim(static_cast<int>(out.window_dims[k]));
  return out;
}

namespace {

void check_updates(const Windows& windows, const Type& operand, const Type& indices, const Type& updates) {
  require(updates.ndim() == isize(windows.index_dims) + isize(windows.window_dims),
          "updates must have {} dims ({} of the indices, {} of windows), got {}",
          windows.index_dims.size() + windows.window_dims.size(), windows.index_dims.size(), windows.window_dims.size(),
          updates);
  for (std::size_t i = 0; i < windows.index_dims.size(); ++i) {
    const auto a = static_cast<int>(windows.index_dims[i]);
    const auto b = static_cast<int>(windows.batch_dims[i]);
    require(indices.dim(a) == updates.dim(b), "indices dim {} is {}, but updates dim {} is {}", a, indices.dim(a), b,
            updates.dim(b));
  }
  for (std::size_t k = 0; k < windows.window_dims.size(); ++k) {
    const auto a = static_cast<int>(windows.operand_dims[k]);
    const auto b = static_cast<int>(windows.window_dims[k]);
    require(updates.dim(b) <= operand.dim(a), "updates dim {} is {}, larger than operand dim {}, which is {}", b,
            updates.dim(b), a, operand.dim(a));
  }
}

void check_combiner(const OpView& view) {
  const int count = array_count(view);
  require(view.called.size() == 1, "needs one computation, got {}", view.called.size());
  const Computation& combiner = *view.called[0];
  require(isize(combiner.parameters) == 2 * count, "the combiner %{} must take {} parameters, takes {}", combiner.name,
          2 * count, combiner.parameters.size());
}

Type infer_scatter(const OpView& view) {
  require(isize(view.operands) % 2 == 1, "takes as many operands as updates, and indices between them; got {} operands",
          view.operands.size());
  const int count = array_count(view);
  for (int i = 0; i < isize(view.operands); ++i) array_operand(view, i);
  const Type& indices = at(view.operands, count);
  const Windows windows = scatter_windows(view);
  std::vector<Type> results;
  for (int i = 0; i < count; ++i) {
    const Type& operand = at(view.operands, i);
    const Type& updates = at(view.operands, count + 1 + i);
    require(operand.dims() == view.operands[0].dims(), "operands differ in dims: {} and {}", view.operands[0], operand);
    require(operand.dtype() == updates.dtype(), "updates are {}, the operand is {}", updates, operand);
    check_windows(windows, operand, indices, kNames);
    check_updates(windows, operand, indices, updates);
    results.push_back(operand);
  }
  check_combiner(view);
  return declared_or(view, count == 1 ? results.front() : Type::tuple(std::move(results)));
}

// ---- evaluation ----------------------------------------------------------------------------------------------------

// operands[..][to] = combiner(operands[..][to], updates[..][from])
void combine(const EvalContext& context, std::vector<Literal>& results, std::int64_t to, std::int64_t from) {
  const std::size_t count = results.size();
  std::vector<Literal> arguments;
  for (const Literal& result : results) arguments.push_back(scalar_at(result, to));
  for (std::size_t i = 0; i < count; ++i) arguments.push_back(scalar_at(context.operands[count + 1 + i], from));
  const auto combined = context.call(0, arguments).leaves();
  for (std::size_t i = 0; i < count; ++i) strided_copy(combined[i], {0, {}}, results[i], {to, {}}, {});
}

// The common case without a call per element.
void add_in_place(Literal& result, const Literal& updates, std::int64_t to, std::int64_t from) {
  visit_any_dtype(result.type().dtype(), [&]<class T>() {
    T& sum = at(result.mutable_data<T>(), to);
    const T addend = at(updates.data<T>(), from);
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double> || is_complex(kDTypeOf<T>))
      sum += addend;
    else if constexpr (is_float(kDTypeOf<T>))
      sum = T(static_cast<float>(sum) + static_cast<float>(addend));
    else if constexpr (is_integer(kDTypeOf<T>))
      sum = static_cast<T>(static_cast<std::uint64_t>(sum) + static_cast<std::uint64_t>(addend));
  });
}

Literal evaluate_scatter(const EvalContext& context) {
  if (has_narrow(context)) return evaluate_widened(context, evaluate_scatter);
  const Windows windows = scatter_windows(context.view);
  const auto count = static_cast<std::size_t>(array_count(context.view));
  std::vector<Literal> results(context.operands.begin(), context.operands.begin() + static_cast<std::ptrdiff_t>(count));
  const Dims& dims = results[0].type().dims();
  const Dims strides = row_major_strides(dims);
  const Type& updates = context.operands[count + 1].type();
  const Dims update_strides = row_major_strides(updates.dims());
  const bool adds =
      count == 1 && updates.dtype() != DType::kPred && reduction_of(*context.view.called[0]) == Reduction::kSum;
  Dims box;
  for (const auto d : windows.operand_dims) box.push_back(at(windows.sizes, d));
  for_each_window(windows, context.operands[count], updates, [&](const Dims& start, std::int64_t update_offset) {
    std::int64_t offset = 0;
    for (int d = 0; d < isize(start); ++d) {
      if (at(start, d) < 0 || at(start, d) > at(dims, d) - at(windows.sizes, d)) return;
      offset += at(start, d) * at(strides, d);
    }
    for_each_index(box, [&](const Dims& index) {
      std::int64_t to = offset;
      std::int64_t from = update_offset;
      for (std::size_t k = 0; k < index.size(); ++k) {
        to += index[k] * at(strides, windows.operand_dims[k]);
        from += index[k] * at(update_strides, windows.window_dims[k]);
      }
      if (adds)
        add_in_place(results[0], context.operands[count + 1], to, from);
      else
        combine(context, results, to, from);
    });
  });
  return count == 1 ? results[0] : Literal::tuple(std::move(results));
}

// ---- factors_scatter, localize ---------------------------------------------------------------------------------------------

FactorMap factors_scatter(const OpView& view) {
  FactorMap map;
  const int count = array_count(view);
  const auto reduction = count == 1 ? reduction_of(*view.called[0]) : std::nullopt;
  map.reduction = reduction.value_or(Reduction::kSum);
  const Windows windows = scatter_windows(view);
  // Without an index component, padding of split updates cannot be given an index outside of the operand.
  map.reduction_known = reduction.has_value();
  const FactorKind split = reduction && !windows.index_map.empty() ? FactorKind::kReduce : FactorKind::kBlocked;
  WindowFactors all =
      window_factors(map, windows, view.operands[0], at(view.operands, count), OneWideDims::kKept, split);
  for (int i = 0; i < count; ++i) map.operands.push_back(all.operand);
  map.operands.push_back(all.indices);
  for (int i = 0; i < count; ++i) map.operands.push_back(all.result);
  map.results.assign(static_cast<std::size_t>(count), all.operand);
  return map;
}

Linearity linearity_scatter(const OpView& view, int operand) {
  if (array_count(view) != 1 || operand == 1) return Linearity::kNone;
  const Computation& combiner = *view.called[0];
  const bool is_linear = is_overwrite(combiner) || reduction_of(combiner) == Reduction::kSum;
  return is_linear ? Linearity::kJointlyLinear : Linearity::kNone;
}

bool is_splat_of(Value x, const Literal& scalar) {
  const Instruction* made = &x.instruction();
  if (made->op == &kBroadcast) made = &(*x.builder)[made->operands[0]];
  if (made->op->role != Role::kConstant) return false;
  const auto& value = attributes_as<ConstantAttributes>(made->attributes).value;
  return value.type().ndim() == 0 ? value == scalar : value == splat_literal(scalar, value.type());
}

// The operand on the device at coordinate 0 of the axes that split the updates, and the identity on others.
Value operand_once(LocalizeContext& context, const std::vector<AxisRef>& axes) {
  const Value operand = context.operands[0];
  std::vector<AxisRef> uncounted;  // over its own partial axes, the operand counts once already
  for (const AxisRef& axis : axes)
    if (!std::count(context.operand_shardings[0].partial.begin(), context.operand_shardings[0].partial.end(), axis))
      uncounted.push_back(axis);
  const Reduction reduction = reduction_of(*context.view.called[0]).value_or(Reduction::kSum);
  const Literal identity = reduction_identity(reduction, operand.type().dtype());
  if (uncounted.empty() || is_splat_of(operand, identity)) return operand;
  const Value first =
      ops::compare(context.coordinate(uncounted), ops::scalar(context.builder, DType::kS32, 0), CompareDirection::kEq);
  return ops::select(first, operand, ops::splat(ops::constant(context.builder, identity), operand.type().dims()));
}

// Gives padding an index outside of the operand, so that its updates are dropped.
Value mask_padding(LocalizeContext& context, Value indices, int operand, int dim) {
  Builder& builder = context.builder;
  const std::int64_t size = at(context.view.operands, operand).dim(dim);
  const std::int64_t length = indices.type().dim(dim);
  const Value position = ops::add(ops::iota(builder, Type::array(DType::kS32, {length}), 0),
                                  ops::splat(context.start_of_operand(operand, dim), {length}));
  const Value real =
      ops::compare(position, ops::splat(index_constant(builder, DType::kS32, size), {length}), CompareDirection::kLt);
  const Value outside = ops::splat(index_constant(builder, indices.type().dtype(), -1), indices.type().dims());
  return ops::select(ops::broadcast(real, indices.type().dims(), {dim}), indices, outside);
}

Value localize_scatter(LocalizeContext& context) {
  const Windows windows = scatter_windows(context.view);
  const int count = array_count(context.view);
  const Sharding& sharding = at(context.operand_shardings, count);
  Value indices = at(context.operands, count);
  std::vector<AxisRef> split;
  for (const auto dim : windows.index_dims) {
    const auto d = static_cast<int>(dim);
    if (contains(windows.indices_batching, dim) || !sharding.is_tiled() || sharding.tiles(d) == 1) continue;
    split.insert(split.end(), at(sharding.dims, d).axes.begin(), at(sharding.dims, d).axes.end());
    if (at(context.view.operands, count).dim(d) % sharding.tiles(d) != 0)
      indices = mask_padding(context, widened_indices(indices), count, d);
  }
  const Type& global = context.view.operands[0];
  std::vector<Value> starts(windows.index_map.size());
  for (int d = 0; d < global.ndim(); ++d) {
    const bool covers_dim = at(windows.sizes, d) == global.dim(d);
    if (context.operands[0].type().dim(d) == global.dim(d) || windows.batch_of(d) >= 0 || covers_dim) continue;
    at(starts, windows.component_of(d)) = context.start_of_operand(0, d);
  }
  if (std::any_of(starts.begin(), starts.end(), [](const Value& start) { return !start.is_null(); })) {
    indices = widened_indices(indices);
    const DType dtype = indices.type().dtype();
    for (Value& start : starts) {
      if (start.is_null())
        start = index_constant(context.builder, dtype, 0);
      else if (dtype != DType::kS32)
        start = ops::convert(start, dtype);
    }
    indices = ops::subtract(indices, along_components(indices, windows, starts));
  }
  std::vector<Value> operands = context.operands;
  at(operands, count) = indices;
  if (!split.empty()) operands[0] = operand_once(context, split);
  return context.builder.emit(context.view.op, operands, context.view.attributes,
                              {.called = context.called, .notes = context.notes});
}

double flops_scatter(const OpView& view) {
  const int count = array_count(view);
  return static_cast<double>(count) * static_cast<double>(at(view.operands, count + 1).element_count());
}

}  // namespace

const OpDef kScatter = {.name = "scatter",
                        .min_operands = 3,
                        .max_operands = -1,
                        .updates_operand_in_place = true,
                        .called = {"to_apply"},
                        .parse = parse_attributes<ScatterAttributes>,
                        .infer = infer_scatter,
                        .evaluate = evaluate_scatter,
                        .gradient_kind = GradientKind::kFunction,
                        .gradient = gradient_scatter,
                        .batch = batch_scatter,
                        .factors = factors_scatter,
                        .linearity = linearity_scatter,
                        .localize = localize_scatter,
                        .masks_padding = true,
                        .flops = flops_scatter};

}  // namespace rows

bool is_overwrite(const Computation& combiner) {
  return combiner.parameters.size() == 2 && combiner.root == combiner.parameters[1];
}

namespace ops {

ComputationId overwrite_computation(ProgramBuilder& program, DType dtype) {
  const auto& known = program.program().computations;
  const Type element = Type::scalar(dtype);
  const std::string name = fmt::format("overwrite_{}", dtype_name(dtype));
  for (std::size_t i = 0; i < known.size(); ++i)
    if (known[i]->name == name && is_overwrite(*known[i]) && known[i]->root_type() == element)
      return static_cast<ComputationId>(i);
  Builder builder = program.computation(name);
  parameter(builder, 0, element, "old");
  const Value update = parameter(builder, 1, element, "update");
  return program.add(std::move(builder), update);
}

Value scatter(const std::vector<Value>& operands, Value indices, const std::vector<Value>& updates,
              ScatterAttributes attributes, ComputationId combiner) {
  std::vector<Value> all = operands;
  all.push_back(indices);
  all.insert(all.end(), updates.begin(), updates.end());
  return indices.builder->emit(rows::kScatter, all, make_attributes(std::move(attributes)), {.called = {combiner}});
}

}  // namespace ops
}  // namespace tessera
