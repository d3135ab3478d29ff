// SPDX-License-Identifier: Apache-2.0
//   %d = f32[2,8,5] dot(%a, %b), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0},
//        rhs_contracting_dims={1}        %a f32[2,8,3], %b f32[2,3,5]
// Result dims: batch, free dims of lhs, free dims of rhs.
#include <algorithm>

#include "batch_rules.h"
#include "row_support.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"
#include "wide.h"

namespace tessera {
namespace rows {
namespace {

// The dims of one operand by their role.
struct DotSide {
  Dims batch;
  Dims contracting;
  Dims free;  // ascending
};
DotSide side_of(const Type& type, const Dims& batch, const Dims& contracting) {
  DotSide side{batch, contracting, {}};
  for (int d = 0; d < type.ndim(); ++d)
    if (!contains(batch, d) && !contains(contracting, d)) side.free.push_back(d);
  return side;
}
DotSide lhs_side(const OpView& view) {
  const auto& a = view.as<DotAttributes>();
  return side_of(view.operands[0], a.lhs_batch_dims, a.lhs_contracting_dims);
}
DotSide rhs_side(const OpView& view) {
  const auto& a = view.as<DotAttributes>();
  return side_of(view.operands[1], a.rhs_batch_dims, a.rhs_contracting_dims);
}

Dims picked(const Dims& sizes, const Dims& dims) {
  Dims out;
  for (const auto d : dims) out.push_back(at(sizes, d));
  return out;
}

// ---- infer ----------------------------------------------------------------------------------------------------------

void check_side(const Type& type, const Dims& batch, const Dims& contracting, std::string_view side) {
  check_distinct_dims(batch, type.ndim(), fmt::format("{}_batch_dims", side));
  check_distinct_dims(contracting, type.ndim(), fmt::format("{}_contracting_dims", side));
  for (const auto d : batch) require(!contains(contracting, d), "{} dim {} is both batch and contracting", side, d);
}

void check_pairs(const OpView& view, const Dims& lhs, const Dims& rhs, std::string_view kind) {
  require(lhs.size() == rhs.size(), "{} {} dims of lhs, {} of rhs", lhs.size(), kind, rhs.size());
  for (std::size_t i = 0; i < lhs.size(); ++i) {
    const auto a = at(view.operands[0].dims(), lhs[i]);
    const auto b = at(view.operands[1].dims(), rhs[i]);
    require(a == b, "{} sizes differ: lhs dim {} is {}, rhs dim {} is {}", kind, lhs[i], a, rhs[i], b);
  }
}

Type infer_dot(const OpView& view) {
  const Type& lhs = array_operand(view, 0);
  const Type& rhs = array_operand(view, 1);
  const auto& a = view.as<DotAttributes>();
  const bool mixed = lhs.dtype() != rhs.dtype();  // two f8 types, or bf16 and f32
  require(!mixed || (!is_complex(lhs.dtype()) && !is_complex(rhs.dtype()) && view.result.is_array()),
          "element types differ: lhs is {}, rhs is {}; convert one of them, or declare the result's",
          dtype_name(lhs.dtype()), dtype_name(rhs.dtype()));
  check_side(lhs, a.lhs_batch_dims, a.lhs_contracting_dims, "lhs");
  check_side(rhs, a.rhs_batch_dims, a.rhs_contracting_dims, "rhs");
  check_pairs(view, a.lhs_batch_dims, a.rhs_batch_dims, "batch");
  check_pairs(view, a.lhs_contracting_dims, a.rhs_contracting_dims, "contracting");
  Dims dims = picked(lhs.dims(), a.lhs_batch_dims);
  for (const auto size : picked(lhs.dims(), lhs_side(view).free)) dims.push_back(size);
  for (const auto size : picked(rhs.dims(), rhs_side(view).free)) dims.push_back(size);
  // The declared element type may differ: f32 from bf16 operands.
  const DType dtype = view.result.is_array() ? view.result.dtype() : lhs.dtype();
  require(is_complex(dtype) == is_complex(lhs.dtype()), "a product of {} cannot be {}", dtype_name(lhs.dtype()),
          dtype_name(dtype));
  return declared_or(view, Type::array(dtype, std::move(dims)));
}

// ---- evaluation -----------------------------------------------------------------------------------------------------

// The elements with dims in the given order.
Literal arranged(const Literal& x, const std::vector<Dims>& order) {
  Dims box;
  Dims strides;
  const Dims own = row_major_strides(x.type().dims());
  for (const Dims& dims : order) {
    for (const auto d : dims) {
      box.push_back(at(x.type().dims(), d));
      strides.push_back(at(own, d));
    }
  }
  Literal out(Type::array(x.type().dtype(), box));
  strided_copy(x, {0, strides}, out, {0, row_major_strides(box)}, box);
  return out;
}

// total[j] += a[k] * b[k, j], in the order of k for every sum, all columns together.
template <class W>
void add_products(const W* a, const W* b, std::int64_t k, std::int64_t n, W* total) {
  for (std::int64_t i = 0; i < k; ++i, b += n) {
    const W factor = a[i];
    for (std::int64_t j = 0; j < n; ++j) total[j] += factor * b[j];
  }
}

Literal evaluate_dot(const EvalContext& context) {
  if (has_narrow(context)) return evaluate_widened(context, evaluate_dot);
  const DotSide left = lhs_side(context.view);
  const DotSide right = rhs_side(context.view);
  Literal lhs = arranged(context.operands[0], {left.batch, left.free, left.contracting});     // [b, m, k]
  Literal rhs = arranged(context.operands[1], {right.batch, right.contracting, right.free});  // [b, k, n]
  if (lhs.type().dtype() != rhs.type().dtype()) {
    lhs = as_widest(lhs);
    rhs = as_widest(rhs);
  }
  const std::int64_t m = product(picked(context.operands[0].type().dims(), left.free));
  const std::int64_t n = product(picked(context.operands[1].type().dims(), right.free));
  const std::int64_t k = product(picked(context.operands[0].type().dims(), left.contracting));
  Literal out(context.view.result);
  if (out.type().element_count() == 0) return out;
  visit_wide(lhs.type().dtype(), out.type().dtype(), [&]<class W>() {
    const auto a = widened<W>(lhs);
    const auto b = widened<W>(rhs);
    std::vector<W> sums(static_cast<std::size_t>(out.type().element_count()));
    for (std::int64_t row = 0; row < isize(sums) / n; ++row)
      add_products(a.data() + row * k, b.data() + row / m * k * n, k, n, sums.data() + row * n);
    narrow(sums, out);
  });
  return out;
}

// ---- factors --------------------------------------------------------------------------------------------------------

FactorMap factors_dot(const OpView& view) {
  const DotSide left = lhs_side(view);
  const DotSide right = rhs_side(view);
  FactorMap map;
  TensorFactors lhs(view.operands[0].dims().size());
  TensorFactors rhs(view.operands[1].dims().size());
  TensorFactors result;
  for (std::size_t i = 0; i < left.batch.size(); ++i) {
    const int factor = map.add(at(view.operands[0].dims(), left.batch[i]));
    at(lhs, left.batch[i]) = at(rhs, right.batch[i]) = {factor};
    result.push_back({factor});
  }
  const auto add_free = [&](const Type& type, const Dims& dims, TensorFactors& tensor) {
    for (const auto d : dims) {
      at(tensor, d) = {map.add(at(type.dims(), d))};
      result.push_back(at(tensor, d));
    }
  };
  add_free(view.operands[0], left.free, lhs);
  add_free(view.operands[1], right.free, rhs);
  for (std::size_t i = 0; i < left.contracting.size(); ++i) {
    const int factor = map.add(at(view.operands[0].dims(), left.contracting[i]), FactorKind::kReduce);
    at(lhs, left.contracting[i]) = at(rhs, right.contracting[i]) = {factor};
  }
  if (view.result.dtype() == DType::kPred) map.reduction = Reduction::kOr;
  map.operands = {std::move(lhs), std::move(rhs)};
  map.results = {std::move(result)};
  return map;
}

double flops_dot(const OpView& view) {
  const auto k = product(picked(view.operands[0].dims(), view.as<DotAttributes>().lhs_contracting_dims));
  return 2.0 * static_cast<double>(view.result.element_count()) * static_cast<double>(k);
}

// ---- gradient -------------------------------------------------------------------------------------------------------

// d_own = d · other, contracted over other's free dims, which begin at `first` in d. d · other has the dims [batch,
// free of own, contracting in the order of other's dims], and other · d has [batch, contracting, free]. The order that
// matches own is used, else a transpose follows.
Value gradient_of(Value d, const DotSide& own, const Value& other, const DotSide& theirs, std::int64_t first,
                  DType sum_type) {
  Dims batch;
  Dims summed;
  for (std::int64_t i = 0; i < isize(own.batch); ++i) batch.push_back(i);
  for (std::int64_t i = 0; i < isize(theirs.free); ++i) summed.push_back(first + i);
  Dims contracting;
  for (int dim = 0; dim < other.type().ndim(); ++dim) {
    const auto found = std::find(theirs.contracting.begin(), theirs.contracting.end(), dim);
    if (found != theirs.contracting.end())
      contracting.push_back(at(own.contracting, found - theirs.contracting.begin()));
  }
  const auto come_as = [&](const Dims& next, const Dims& last) {
    Dims out = own.batch;
    out.insert(out.end(), next.begin(), next.end());
    out.insert(out.end(), last.begin(), last.end());
    return out;
  };
  const Value narrow = ops::convert(d, other.type().dtype());
  if (Dims come = come_as(contracting, own.free); std::is_sorted(come.begin(), come.end()))
    return ops::dot(other, narrow, {theirs.batch, theirs.free, batch, summed}, sum_type);
  const Value flow = ops::dot(narrow, other, {batch, summed, theirs.batch, theirs.free}, sum_type);
  const Dims come = come_as(own.free, contracting);
  if (std::is_sorted(come.begin(), come.end())) return flow;
  Dims permutation(come.size());
  for (std::int64_t i = 0; i < isize(come); ++i) at(permutation, at(come, i)) = i;
  return ops::transpose(flow, permutation);
}

std::vector<Value> gradient_dot(GradientContext& c) {
  const DotSide left = lhs_side(c.view);
  const DotSide right = rhs_side(c.view);
  const std::int64_t batch = isize(left.batch);
  std::vector<Value> out(2);
  if (c.needs(0))
    out[0] = gradient_of(c.d_result(), left, c.operand(1), right, batch + isize(left.free), c.sum_type(0));
  if (c.needs(1)) out[1] = gradient_of(c.d_result(), right, c.operand(0), left, batch, c.sum_type(1));
  return out;
}

}  // namespace

const OpDef kDot{
    .name = "dot",
    .min_operands = 2,
    .max_operands = 2,
    .chunkable = true,
    .reads_strides = true,
    .writes_strides = true,
    .parse = parse_attributes<DotAttributes>,
    .infer = infer_dot,
    .evaluate = evaluate_dot,
    .gradient_kind = GradientKind::kFunction,
    .gradient = gradient_dot,
    .batch = batch_dot,
    .factors = factors_dot,
    .linearity = linear,
    .localize = localize_declared,
    .flops = flops_dot,
};

}  // namespace rows

Value ops::dot(Value lhs, Value rhs, DotAttributes dims, std::optional<DType> result) {
  Builder& builder = *lhs.builder;
  EmitOptions options;
  if (result) options.type = Type::scalar(*result);  // the dims are inferred
  return builder.emit(rows::kDot, {lhs, rhs}, make_attributes(std::move(dims)), std::move(options));
}
Value ops::matmul(Value lhs, Value rhs) {
  const int last = lhs.type().is_array() ? lhs.type().ndim() - 1 : 0;
  return dot(lhs, rhs,
             {.lhs_batch_dims = {}, .lhs_contracting_dims = {last}, .rhs_batch_dims = {}, .rhs_contracting_dims = {0}});
}

}  // namespace tessera
