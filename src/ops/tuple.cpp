// SPDX-License-Identifier: Apache-2.0
// Ops that return values unchanged: copy, tuple, get-tuple-element, opt-barrier, after-all, add-dependency, domain.
#include "row_support.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace rows {
namespace {

Type infer_same(const OpView& view) { return declared_or(view, view.operands[0]); }
Literal evaluate_same(const EvalContext& context) { return context.operands[0]; }
std::vector<Value> gradient_leaves(GradientContext& c) { return c.d_results; }

// add-dependency: the value, which is available after the token.
Type infer_first(const OpView& view) {
  array_operand(view, 0);
  require(view.operands[1].is_token(), "operand 1 must be a token, got {}", view.operands[1]);
  return declared_or(view, view.operands[0]);
}
std::vector<Value> gradient_first(GradientContext& c) { return {c.d_result(), Value{}}; }
FactorMap leafwise_first(const OpView& view) {
  FactorMap map = leafwise_factors(view);
  map.results.pop_back();
  return map;
}

Type infer_tuple(const OpView& view) { return declared_or(view, Type::tuple(view.operands)); }
Literal evaluate_tuple(const EvalContext& context) {
  return Literal::tuple({context.operands.begin(), context.operands.end()});
}

Type infer_element(const OpView& view) {
  const Type& tuple = view.operands[0];
  require(tuple.is_tuple(), "the operand must be a tuple, got {}", tuple);
  const auto index = view.as<IndexAttributes>().index;
  require(index >= 0 && index < isize(tuple.elements()), "index {} is out of range for a tuple of {}", index,
          tuple.elements().size());
  return declared_or(view, at(tuple.elements(), index));
}
Literal evaluate_element(const EvalContext& context) {
  return at(context.operands[0].elements(), context.view.as<IndexAttributes>().index);
}
FactorMap element_factors(const OpView& view) {
  FactorMap map;
  for (const Type& leaf : view.operands[0].leaves()) map.operands.push_back(add_factors(map, leaf));
  const auto& elements = view.operands[0].elements();
  const auto index = view.as<IndexAttributes>().index;
  const auto begin = map.operands.begin() + view.operands[0].leaf_offset(index);
  map.results.assign(begin, begin + at(elements, index).leaf_count());
  return map;
}

Type infer_after_all(const OpView& view) {
  for (int i = 0; i < isize(view.operands); ++i)
    require(at(view.operands, i).is_token(), "operand {} must be a token, got {}", i, at(view.operands, i));
  return Type::token();
}
Literal evaluate_after_all(const EvalContext&) { return Literal(Type::token()); }

}  // namespace

const OpDef kCopy{
    .name = "copy",
    .min_operands = 1,
    .max_operands = 1,
    .role = Role::kCopy,
    .elementwise = true,
    .infer = infer_same,
    .evaluate = evaluate_same,
    .gradient_kind = GradientKind::kFunction,
    .gradient = gradient_leaves,
    .factors = leafwise_factors,
    .linearity = passes_all,
    .flops = no_flops,
};

const OpDef kTuple{
    .name = "tuple",
    .max_operands = -1,
    .role = Role::kTuple,
    .infer = infer_tuple,
    .evaluate = evaluate_tuple,
    .gradient_kind = GradientKind::kFunction,
    .gradient = gradient_leaves,
    .factors = leafwise_factors,
    .linearity = passes_all,
};

const OpDef kGetTupleElement{
    .name = "get-tuple-element",
    .min_operands = 1,
    .max_operands = 1,
    .role = Role::kGetTupleElement,
    .parse = parse_attributes<IndexAttributes>,
    .infer = infer_element,
    .evaluate = evaluate_element,
    .gradient_kind = GradientKind::kFunction,
    .gradient = gradient_leaves,
    .factors = element_factors,
    .linearity = passes_all,
};

const OpDef kOptBarrier{
    .name = "opt-barrier",
    .min_operands = 1,
    .max_operands = 1,
    .role = Role::kOptBarrier,
    .infer = infer_same,
    .evaluate = evaluate_same,
    .gradient_kind = GradientKind::kFunction,
    .gradient = gradient_leaves,
    .factors = leafwise_factors,
    .linearity = passes_all,
};

const OpDef kAfterAll{
    .name = "after-all",
    .max_operands = -1,
    .infer = infer_after_all,
    .evaluate = evaluate_after_all,
    .gradient_kind = GradientKind::kZero,
};

const OpDef kAddDependency{
    .name = "add-dependency",
    .min_operands = 2,
    .max_operands = 2,
    .infer = infer_first,
    .evaluate = evaluate_same,
    .gradient_kind = GradientKind::kFunction,
    .gradient = gradient_first,
    .factors = leafwise_first,
    .linearity = passes_all,
    .flops = no_flops,
};

const OpDef kDomain{
    .name = "domain",
    .min_operands = 1,
    .max_operands = 1,
    .infer = infer_same,
    .evaluate = evaluate_same,
    .gradient_kind = GradientKind::kFunction,
    .gradient = gradient_leaves,
    .factors = leafwise_factors,
    .linearity = passes_all,
    .flops = no_flops,
};

}  // namespace rows

Value ops::copy(Value x) { return x.builder->emit(rows::kCopy, {x}); }
Value ops::tuple(Builder& builder, const std::vector<Value>& elements) { return builder.emit(rows::kTuple, elements); }
Value ops::get_tuple_element(Value tuple, int index) {
  return tuple.builder->emit(rows::kGetTupleElement, {tuple}, make_attributes(IndexAttributes{index}));
}
std::vector<Value> ops::opt_barrier(const std::vector<Value>& values) {
  if (values.empty()) return {};
  Builder& builder = *values.front().builder;
  if (values.size() == 1) return {builder.emit(rows::kOptBarrier, values)};
  const Value all = builder.emit(rows::kOptBarrier, {tuple(builder, values)});
  std::vector<Value> out;
  for (int i = 0; i < isize(values); ++i) out.push_back(get_tuple_element(all, i));
  return out;
}

}  // namespace tessera
