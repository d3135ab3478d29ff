// SPDX-License-Identifier: Apache-2.0
//   %r = f32[6,4] reshape(%x)       %x f32[2,3,4]: the same elements in row-major order
#include <numeric>

#include "batch_rules.h"
#include "row_support.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace rows {
namespace {

Type infer_reshape(const OpView& view) {
  const Type& x = array_operand(view, 0);
  const Type& declared = declared_array(view);
  if (x.dtype() != declared.dtype())
    fail("element types differ: operand {}, declared result {}", x.str(), declared.str());
  if (x.element_count() != declared.element_count())
    fail("{} has {} elements, {} has {}", x.str(), x.element_count(), declared.str(), declared.element_count());
  return declared;
}

Literal evaluate_reshape(const EvalContext& context) {
  return context.operands[0].reshaped(context.view.result.dims());
}

// Walks over the dims of one side, major to minor, in parallel with the other side.
struct Walk {
  const Dims& dims;
  TensorFactors factors;
  std::size_t dim = 0;
  std::int64_t left = 1;  // of dims[dim], not yet part of a factor

  explicit Walk(const Dims& d) : dims(d), factors(d.size()) {
    if (!dims.empty()) left = dims[0];
    skip();
  }
  [[nodiscard]] bool done() const { return dim == dims.size(); }
  void take(int factor, std::int64_t size) {
    factors[dim].push_back(factor);
    left /= size;
    skip();
  }
  void skip() {  // to the next dim with a remaining part
    while (dim < dims.size() && left == 1)
      if (++dim < dims.size()) left = dims[dim];
  }
};

// Dims without a common factorization must be unsharded, up to the point where both sides have the same number of
// elements.
void block(FactorMap& map, Walk& in, Walk& out) {
  std::int64_t passed_in = 1;
  std::int64_t passed_out = 1;
  const auto pass = [&](Walk& side, std::int64_t& passed) {
    passed *= side.left;
    side.take(map.add(side.left, FactorKind::kBlocked), side.left);
  };
  do {
    if (passed_in <= passed_out)
      pass(in, passed_in);
    else
      pass(out, passed_out);
  } while (passed_in != passed_out);
}

FactorMap factors_reshape(const OpView& view) {
  FactorMap map;
  const Type& x = view.operands[0];
  if (x.element_count() == 0) {
    map.operands = {add_factors(map, x, FactorKind::kBlocked)};
    map.results = {add_factors(map, view.result, FactorKind::kBlocked)};
    return map;
  }
  Walk in(x.dims());
  Walk out(view.result.dims());
  while (!in.done() && !out.done()) {
    const std::int64_t common = std::gcd(in.left, out.left);
    const bool nests = common == in.left || common == out.left;
    if (common > 1) {
      const int factor = map.add(common);
      in.take(factor, common);
      out.take(factor, common);
    }
    if (!nests) block(map, in, out);
  }
  map.operands = {in.factors};
  map.results = {out.factors};
  return map;
}

std::vector<Value> gradient_reshape(GradientContext& c) {
  return {ops::reshape(c.d_result(), c.view.operands[0].dims())};
}

}  // namespace

const OpDef kReshape{
    .name = "reshape",
    .min_operands = 1,
    .max_operands = 1,
    .movement = Movement::kReshape,
    .chunkable = true,
    .infer = infer_reshape,
    .type_inferable = false,
    .evaluate = evaluate_reshape,
    .gradient_kind = GradientKind::kFunction,
    .gradient = gradient_reshape,
    .batch = batch_reshape,
    .factors = factors_reshape,
    .linearity = passes_all,
    .localize = localize_declared,
    .flops = no_flops,
};

}  // namespace rows

Value ops::reshape(Value x, Dims dims) {
  Type type = x.type().is_array() ? Type::array(x.type().dtype(), std::move(dims)) : Type();
  return x.builder->emit(rows::kReshape, {x}, nullptr, {.type = std::move(type)});
}

}  // namespace tessera
