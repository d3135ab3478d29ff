// SPDX-License-Identifier: Apache-2.0
// sort: sorts lines along one dim, with the same permutation for all operands. The comparator returns whether its left
// element comes first.
//
//   %s = (f32[8,16], s32[8,16]) sort(%keys, %values), dimensions={1}, is_stable=true, to_apply=%less
//
// Always stable. Comparators that only compare two parameters are recognized; others are called for every pair.
#include <bit>
#include <limits>
#include <numeric>
#include <optional>

#include "batch_rules.h"
#include "elementwise_support.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace rows {
namespace {

int sort_dim(const OpView& view) { return static_cast<int>(view.as<SortAttributes>().dimensions.front()); }

Type infer_sort(const OpView& view) {
  const Type& first = array_operand(view, 0);
  const Dims& dimensions = view.as<SortAttributes>().dimensions;
  require(dimensions.size() == 1, "dimensions must name one dim, got {}", [&] { return field_text(dimensions); });
  check_dim(dimensions[0], first.ndim(), "dimension");
  for (int i = 1; i < isize(view.operands); ++i)
    require(array_operand(view, i).dims() == first.dims(), "operands differ in dims: {} and {}", first,
            at(view.operands, i));
  require(view.called.size() == 1, "needs one computation, got {}", view.called.size());
  const Computation& comparator = *view.called[0];
  require(comparator.parameters.size() == 2 * view.operands.size(),
          "the comparator %{} must take {} parameters, takes {}", comparator.name, 2 * view.operands.size(),
          comparator.parameters.size());
  const auto parameters = comparator.parameter_types();
  for (int i = 0; i < isize(parameters); ++i)
    require(at(parameters, i) == Type::scalar(at(view.operands, i / 2).dtype()),
            "parameter {} of the comparator %{} is {}, the elements of operand {} are {}", i, comparator.name,
            at(parameters, i), i / 2, dtype_name(at(view.operands, i / 2).dtype()));
  require(comparator.root_type() == Type::scalar(DType::kPred), "the comparator %{} must return pred[], returns {}",
          comparator.name, comparator.root_type());
  return declared_or(view, view.operands.size() == 1 ? first : Type::tuple(view.operands));
}

// ---- order ---------------------------------------------------------------------------------------------------------

/// A comparator that compares the two elements of one operand.
struct PlainCompare {
  int operand = 0;
  CompareAttributes compare;
};
std::optional<PlainCompare> plain_compare(const Computation& comparator) {
  const Instruction& root = comparator[comparator.root];
  if (root.op != &kCompare) return std::nullopt;
  std::int64_t numbers[2];
  for (std::size_t i = 0; i < 2; ++i) {
    const Instruction& side = comparator[root.operands[i]];
    if (side.op->role != Role::kParameter) return std::nullopt;
    numbers[i] = attributes_as<ParameterAttributes>(side.attributes).number;
  }
  if (numbers[0] / 2 != numbers[1] / 2 || numbers[0] == numbers[1]) return std::nullopt;
  PlainCompare out{static_cast<int>(numbers[0] / 2), attributes_as<CompareAttributes>(root.attributes)};
  if (numbers[0] > numbers[1]) {  // b < a is a > b
    constexpr CompareDirection kSwapped[] = {CompareDirection::kEq, CompareDirection::kNe, CompareDirection::kGt,
                                             CompareDirection::kGe, CompareDirection::kLt, CompareDirection::kLe};
    out.compare.direction = kSwapped[static_cast<std::size_t>(out.compare.direction)];
  }
  return out;
}

std::int64_t integer_key(const Literal& array, std::int64_t i) {
  if (is_float(array.type().dtype())) return total_order_key(element_as_double(array, i));
  const std::int64_t value = element_as_int(array, i);
  return array.type().dtype() == DType::kU64 ? value ^ std::numeric_limits<std::int64_t>::min() : value;
}

/// Sorts 0..n-1 such that `first(a, b)` (a before b) holds, as far as it is an order; equal elements keep their order.
template <class First>
std::vector<std::int64_t> merge_sorted(std::int64_t n, First&& first) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::int64_t> merged(order.size());
  for (std::size_t width = 1; width < order.size(); width *= 2) {
    for (std::size_t begin = 0; begin < order.size(); begin += 2 * width) {
      const std::size_t middle = std::min(begin + width, order.size());
      const std::size_t end = std::min(begin + 2 * width, order.size());
      std::size_t left = begin;
      std::size_t right = middle;
      for (std::size_t i = begin; i < end; ++i) {
        const bool take_right = left == middle || (right < end && first(order[right], order[left]));
        merged[i] = order[take_right ? right++ : left++];
      }
    }
    order.swap(merged);
  }
  return order;
}

// The order of the line with element k at base + k*step.
std::vector<std::int64_t> line_order(const EvalContext& context, const std::optional<PlainCompare>& plain,
                                     std::int64_t base, std::int64_t step, std::int64_t n) {
  if (!plain)
    return merge_sorted(n, [&](std::int64_t a, std::int64_t b) {
      std::vector<Literal> arguments;
      for (const Literal& operand : context.operands) {
        arguments.push_back(scalar_at(operand, base + a * step));
        arguments.push_back(scalar_at(operand, base + b * step));
      }
      return context.call(0, arguments).data<bool>()[0];
    });
  const Literal& key = context.operands[static_cast<std::size_t>(plain->operand)];
  const bool as_real = is_float(key.type().dtype()) && plain->compare.type != CompareType::kTotalOrder;
  std::vector<double> reals;
  std::vector<std::int64_t> integers;
  for (std::int64_t i = 0; i < n; ++i) {
    if (as_real)
      reals.push_back(element_as_double(key, base + i * step));
    else
      integers.push_back(integer_key(key, base + i * step));
  }
  const CompareDirection direction = plain->compare.direction;
  return merge_sorted(n, [&](std::int64_t a, std::int64_t b) {
    return as_real ? holds(direction, at(reals, a), at(reals, b)) : holds(direction, at(integers, a), at(integers, b));
  });
}

Literal evaluate_sort(const EvalContext& context) {
  if (has_narrow(context)) return evaluate_widened(context, evaluate_sort);
  const Dims& dims = context.operands[0].type().dims();
  const int dim = sort_dim(context.view);
  const std::int64_t step = at(row_major_strides(dims), dim);
  const std::int64_t n = at(dims, dim);
  const auto plain = plain_compare(*context.view.called[0]);
  std::vector<Literal> results(context.operands.begin(), context.operands.end());
  Dims lines = dims;
  at(lines, dim) = 1;
  const Dims strides = row_major_strides(dims);
  if (n > 0)
    for_each_index(lines, [&](const Dims& index) {
      std::int64_t base = 0;
      for (std::size_t d = 0; d < index.size(); ++d) base += index[d] * strides[d];
      const auto order = line_order(context, plain, base, step, n);
      for (std::size_t k = 0; k < results.size(); ++k)
        for (std::int64_t i = 0; i < n; ++i)
          strided_copy(context.operands[k], {base + at(order, i) * step, {}}, results[k], {base + i * step, {}}, {});
    });
  return results.size() == 1 ? results[0] : Literal::tuple(std::move(results));
}

// ---- factors_sort, gradient ---------------------------------------------------------------------------------------------

FactorMap factors_sort(const OpView& view) {
  FactorMap map;
  const Type& type = view.operands[0];
  TensorFactors all(type.dims().size());
  for (int d = 0; d < type.ndim(); ++d)
    if (type.dim(d) > 1)
      at(all, d) = {map.add(type.dim(d), d == sort_dim(view) ? FactorKind::kBlocked : FactorKind::kPass)};
  map.operands.assign(view.operands.size(), all);
  map.results = map.operands;
  return map;
}

// The comparator with two additional parameters that it ignores.
ComputationId widened_comparator(ProgramBuilder& program, const Computation& comparator) {
  auto wide = std::make_shared<Computation>(comparator);
  wide->name += ".with_position";
  for (int side = 0; side < 2; ++side) {
    Instruction parameter;
    parameter.op = &kParameter;
    parameter.type = Type::scalar(DType::kS32);
    parameter.name = side == 0 ? "left_position" : "right_position";
    parameter.attributes = make_attributes(ParameterAttributes{isize(wide->parameters)});
    wide->parameters.push_back(wide->size());
    wide->instructions.push_back(std::move(parameter));
  }
  return program.add(ComputationRef(std::move(wide)));
}

bool is_positions(Value x, int dim) {
  const Instruction& made = x.instruction();
  return made.op == &kIota && made.type.dtype() == DType::kS32 &&
         attributes_as<IotaAttributes>(made.attributes).iota_dimension == dim;
}

// The source of every result element along the sort dim: a result of the sort, if it sorts positions as well; otherwise
// sorts the operands again together with their positions.
Value sorted_positions(GradientContext& context) {
  const int dim = sort_dim(context.view);
  for (int i = 0; context.operands.size() > 1 && i < isize(context.operands); ++i)
    if (is_positions(at(context.operands, i), dim)) return ops::get_tuple_element(context.result, i);
  ProgramBuilder& program = context.builder.program();
  std::vector<Value> operands = context.operands;
  operands.push_back(ops::iota(context.builder, Type::array(DType::kS32, context.view.operands[0].dims()), dim));
  const ComputationId comparator = widened_comparator(program, *context.view.called[0]);
  return ops::get_tuple_element(ops::sort(operands, dim, true, comparator), isize(context.operands));
}

std::vector<Value> gradient_sort(GradientContext& context) {
  const int dim = sort_dim(context.view);
  const Type& type = context.view.operands[0];
  Dims index_dims = type.dims();
  index_dims.push_back(1);
  const Value positions = ops::reshape(sorted_positions(context), index_dims);
  ScatterAttributes attributes;
  attributes.inserted_window_dims = {dim};
  attributes.scatter_dims_to_operand_dims = {dim};
  for (std::int64_t d = 0; d < type.ndim(); ++d)
    if (d != dim) attributes.input_batching_dims.push_back(d);
  attributes.scatter_indices_batching_dims = attributes.input_batching_dims;
  attributes.index_vector_dim = type.ndim();
  attributes.unique_indices = true;
  std::vector<Value> out(context.operands.size());
  for (int i = 0; i < isize(out); ++i) {
    const Value d_result = at(context.d_results, i);
    if (!context.needs(i) || d_result.is_null()) continue;
    const ComputationId add =
        ops::reduction_computation(context.builder.program(), Reduction::kSum, d_result.type().dtype());
    at(out, i) = ops::scatter({full_like(d_result, 0)}, positions, {d_result}, attributes, add);
  }
  return out;
}

}  // namespace

const OpDef kSort = {.name = "sort",
                     .min_operands = 1,
                     .max_operands = -1,
                     .called = {"to_apply"},
                     .parse = parse_attributes<SortAttributes>,
                     .infer = infer_sort,
                     .evaluate = evaluate_sort,
                     .gradient_kind = GradientKind::kFunction,
                     .gradient = gradient_sort,
                     .batch = batch_sort,
                     .factors = factors_sort,
                     .linearity = none,
                     .flops = no_flops};

}  // namespace rows

std::optional<SortOrder> sort_order(const OpView& sort) {
  const auto plain = rows::plain_compare(*sort.called[0]);
  if (!plain) return std::nullopt;
  return SortOrder{plain->operand, plain->compare.direction, plain->compare.type};
}

namespace ops {

Value sort(const std::vector<Value>& operands, int dim, bool is_stable, ComputationId comparator) {
  require(!operands.empty(), "sort: needs at least one operand");
  return operands.front().builder->emit(rows::kSort, operands, make_attributes(SortAttributes{{dim}, is_stable}),
                                        {.called = {comparator}});
}

}  // namespace ops
}  // namespace tessera
