// SPDX-License-Identifier: Apache-2.0
// Recognizes the reduction that a scalar computation performs, and provides its identity and its computation.
#include <algorithm>
#include <cmath>
#include <limits>

#include "reduce_support.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

// The op that combines two numbers of a reduction.
const OpDef& combiner_of(Reduction reduction) {
  for (const OpDef* op : op_table().rows())
    if (op->combines && op->combines->of_numbers == reduction) return *op;
  throw InternalError("a reduction without an op");
}

// The value before copies and float conversions (bf16 sums are often computed in f32).
Id through_conversions(const Computation& computation, Id id) {
  while (true) {
    const Instruction& instruction = computation[id];
    const bool converts = instruction.op == &rows::kConvert && is_float(instruction.type.dtype()) &&
                          is_float(computation[instruction.operands[0]].type.dtype());
    if (!converts && instruction.op != &rows::kCopy && !is_sharding_mark(instruction)) return id;
    id = instruction.operands[0];
  }
}

template <class T>
Literal identity(Reduction reduction) {
  using Limits = std::numeric_limits<std::conditional_t<is_float(kDTypeOf<T>), double, T>>;
  const auto scalar = [](auto value) { return Literal::scalar<T>(static_cast<T>(value)); };
  switch (reduction) {
    case Reduction::kSum:
    case Reduction::kOr: return scalar_of(kDTypeOf<T>, 0);
    case Reduction::kProduct: return scalar_of(kDTypeOf<T>, 1);
    case Reduction::kMin:
      if constexpr (is_float(kDTypeOf<T>))
        return scalar(Limits::infinity());
      else
        return scalar(Limits::max());
    case Reduction::kMax:
      if constexpr (is_float(kDTypeOf<T>))
        return scalar(-Limits::infinity());
      else
        return scalar(Limits::lowest());
    case Reduction::kAnd: break;
  }
  if constexpr (is_float(kDTypeOf<T>))
    throw InternalError("`and` has no identity among floating-point numbers");
  else if constexpr (kDTypeOf<T> == DType::kPred)
    return scalar(true);
  else
    return scalar(~std::uint64_t{0});
}

// For types with few values: searches for the least or greatest one.
Literal narrow_identity(Reduction reduction, DType dtype) {
  if (reduction == Reduction::kSum || reduction == Reduction::kProduct || reduction == Reduction::kOr) {
    const double neutral = reduction == Reduction::kProduct ? 1 : 0;
    Literal out = scalar_of(dtype, neutral);
    require(element_as_double(out, 0) == neutral, "{} of {} has no neutral element: the type has no {}",
            reduction_name(reduction), dtype_name(dtype), neutral);
    return out;
  }
  if (reduction == Reduction::kAnd) return scalar_of(dtype, -1);  // wraps to all bits
  std::optional<double> most;
  for (int bits = 0; bits < 256; ++bits) {
    const double value = narrow_value(dtype, static_cast<std::uint8_t>(bits));
    if (std::isnan(value)) continue;
    if (!most || (reduction == Reduction::kMin ? value > *most : value < *most)) most = value;
  }
  return scalar_of(dtype, *most);
}

}  // namespace

namespace {

// The root, if it is a binary op of both parameters and its result is a scalar; else nullptr.
const Instruction* op_of_both_parameters(const Computation& computation) {
  if (computation.parameters.size() != 2) return nullptr;
  const Instruction& root = computation[through_conversions(computation, computation.root)];
  if (!root.type.is_array() || root.type.ndim() != 0 || root.operands.size() != 2) return nullptr;
  const Id a = through_conversions(computation, root.operands[0]);
  const Id b = through_conversions(computation, root.operands[1]);
  const Id first = computation.parameters[0];
  const Id second = computation.parameters[1];
  return (a == first && b == second) || (a == second && b == first) ? &root : nullptr;
}

}  // namespace

std::optional<Reduction> reduction_of(const Computation& computation) {
  const Instruction* root = op_of_both_parameters(computation);
  if (!root || !root->op->combines) return std::nullopt;
  return root->type.dtype() == DType::kPred ? root->op->combines->of_pred : root->op->combines->of_numbers;
}

bool may_reassociate(const Computation& computation) {
  const Instruction* root = op_of_both_parameters(computation);
  return !root || root->op->commutative;  // the commutative ops are also associative
}

Literal reduction_identity(Reduction reduction, DType dtype) {
  if (is_complex(dtype)) {
    ensure(reduction == Reduction::kSum || reduction == Reduction::kProduct, "complex elements have no {}",
           reduction_name(reduction));
    return scalar_of(dtype, reduction == Reduction::kSum ? 0 : 1);
  }
  if (is_narrow(dtype)) return narrow_identity(reduction, dtype);
  return visit_dtype(dtype, [&]<class T>() { return identity<T>(reduction); });
}

const Type& rows::checked_input(const OpView& view, int i) {
  const Type& first = array_operand(view, 0);
  const Type& x = array_operand(view, i);
  require(
      x.dims() == first.dims(), "operand {} has dims {}, operand 0 has {}", i, [&] { return dims_text(x.dims()); },
      [&] { return dims_text(first.dims()); });
  const Type& init = scalar_operand(view, input_count(view) + i, fmt::format("the init of operand {}", i));
  require(init.dtype() == x.dtype(), "the init of operand {} is {}, its elements are {}", i, init,
          dtype_name(x.dtype()));
  return x;
}

void rows::check_to_apply(const OpView& view) {
  require(view.called.size() == 1, "needs one computation, to_apply");
  const Computation& callee = *view.called[0];
  const int n = input_count(view);
  const auto parameters = callee.parameter_types();
  require(isize(parameters) == 2 * n,
          "to_apply %{} takes {} parameters, but {} are needed: one per operand and one per init", callee.name,
          parameters.size(), 2 * n);
  std::vector<Type> elements;
  for (int i = 0; i < 2 * n; ++i) {
    const Type element = Type::scalar(at(view.operands, i % n).dtype());
    require(at(parameters, i) == element, "parameter {} of to_apply %{} is {}, the elements are {}", i, callee.name,
            at(parameters, i), element);
    if (i < n) elements.push_back(element);
  }
  const Type result = n == 1 ? elements[0] : Type::tuple(elements);
  require(callee.root_type() == result, "to_apply %{} returns {}, but must return {}", callee.name, callee.root_type(),
          result);
}

ComputationId ops::reduction_computation(ProgramBuilder& program, Reduction reduction, DType dtype) {
  const auto& known = program.program().computations;
  const Type scalar_type = Type::scalar(dtype);
  const std::string name = fmt::format("{}_{}", reduction_name(reduction), dtype_name(dtype));
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (known[i]->name != name) continue;
    const Reduction meant = dtype == DType::kPred ? combiner_of(reduction).combines->of_pred : reduction;
    const bool same = known[i]->root_type() == scalar_type && known[i]->size() == 3 && reduction_of(*known[i]) == meant;
    if (same) return static_cast<ComputationId>(i);
  }
  Builder builder = program.computation(name);
  const Value a = parameter(builder, 0, scalar_type, "a");
  const Value b = parameter(builder, 1, scalar_type, "b");
  const Value root = builder.emit(combiner_of(reduction), {a, b});
  return program.add(std::move(builder), root);
}

}  // namespace tessera
