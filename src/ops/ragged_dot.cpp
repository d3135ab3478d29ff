// SPDX-License-Identifier: Apache-2.0
// A product per group of consecutive positions of the ragged dim of lhs; group_sizes gives the number of positions of
// each group.
//
//   %y = f32[9,5] ragged-dot(%x, %w, %sizes), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0},
//        rhs_group_dims={0}        x f32[9,4], w f32[3,4,5], sizes s32[3]: rows of group g times w[g]
//   ragged contracting dim: the result gains a first dim of groups; ragged batch dim: a plain product
//
// Positions after the last group give zeros.
#include <numeric>

#include "row_support.h"
#include "tessera/ops/linear_algebra.h"
#include "tessera/ops/rows.h"

namespace tessera {
namespace rows {
namespace {

Dims free_dims(const Type& type, const Dims& a, const Dims& b, const Dims& c = {}) {
  Dims out;
  for (std::int64_t d = 0; d < type.ndim(); ++d)
    if (!contains(a, d) && !contains(b, d) && !contains(c, d)) out.push_back(d);
  return out;
}
Dims lhs_free(const OpView& view) {
  const auto& a = view.as<RaggedDotAttributes>();
  return free_dims(view.operands[0], a.lhs_batch_dims, a.lhs_contracting_dims);
}
Dims rhs_free(const OpView& view) {
  const auto& a = view.as<RaggedDotAttributes>();
  return free_dims(view.operands[1], a.rhs_batch_dims, a.rhs_contracting_dims, a.rhs_group_dims);
}
bool has_ragged_contraction(const OpView& view) {
  const auto& a = view.as<RaggedDotAttributes>();
  return contains(a.lhs_contracting_dims, a.lhs_ragged_dims.front());
}
Dims sizes_of(const Type& type, const Dims& dims) {
  Dims out;
  for (const auto d : dims) out.push_back(type.dim(static_cast<int>(d)));
  return out;
}

void check_pairs(const OpView& view, const Dims& lhs, const Dims& rhs, std::string_view what) {
  require(lhs.size() == rhs.size(), "lhs has {} {} dims, rhs has {}", lhs.size(), what, rhs.size());
  require(sizes_of(view.operands[0], lhs) == sizes_of(view.operands[1], rhs), "the {} dims of {} and {} differ", what,
          view.operands[0], view.operands[1]);
}

Type infer_ragged_dot(const OpView& view) {
  const auto& a = view.as<RaggedDotAttributes>();
  const Type& lhs = array_operand(view, 0);
  const Type& rhs = array_operand(view, 1);
  const Type& sizes = array_operand(view, 2);
  require(lhs.dtype() == rhs.dtype(), "element types differ: lhs is {}, rhs is {}", lhs, rhs);
  require(is_integer(sizes.dtype()), "group sizes must be integers, got {}", sizes);
  for (const auto* dims : {&a.lhs_batch_dims, &a.lhs_contracting_dims})
    check_distinct_dims(*dims, lhs.ndim(), "lhs dims");
  for (const auto* dims : {&a.rhs_batch_dims, &a.rhs_contracting_dims, &a.rhs_group_dims})
    check_distinct_dims(*dims, rhs.ndim(), "rhs dims");
  check_pairs(view, a.lhs_batch_dims, a.rhs_batch_dims, "batch");
  check_pairs(view, a.lhs_contracting_dims, a.rhs_contracting_dims, "contracting");
  require(a.lhs_ragged_dims.size() == 1, "lhs_ragged_dims must name one dim, got {}",
          [&] { return field_text(a.lhs_ragged_dims); });
  const auto ragged = a.lhs_ragged_dims[0];
  check_dim(ragged, lhs.ndim(), "lhs_ragged_dims");
  const bool is_free = !contains(a.lhs_batch_dims, ragged) && !has_ragged_contraction(view);
  require(
      a.rhs_group_dims.size() == (is_free ? 1U : 0U), "rhs_group_dims {} do not fit a ragged dim that {}",
      [&] { return field_text(a.rhs_group_dims); }, is_free ? "is kept" : "is contracted or a batch dim");
  const bool per_batch = sizes.ndim() == 1 + isize(a.lhs_batch_dims) && !contains(a.lhs_batch_dims, ragged);
  require(sizes.ndim() == 1 || per_batch, "group sizes must be [groups] or [batch dims, groups], got {}", sizes);
  if (is_free)
    require(rhs.dim(static_cast<int>(a.rhs_group_dims[0])) == sizes.dims().back(), "{} has {} groups, but {} has {}",
            rhs, rhs.dim(static_cast<int>(a.rhs_group_dims[0])), sizes, sizes.dims().back());
  Dims dims;
  if (has_ragged_contraction(view)) dims.push_back(sizes.dims().back());
  for (const auto n : sizes_of(lhs, a.lhs_batch_dims)) dims.push_back(n);
  for (const auto n : sizes_of(lhs, lhs_free(view))) dims.push_back(n);
  for (const auto n : sizes_of(rhs, rhs_free(view))) dims.push_back(n);
  const DType dtype = view.result.is_array() ? view.result.dtype() : lhs.dtype();
  return declared_or(view, Type::array(dtype, std::move(dims)));
}

// The group of a position; -1 after the last group.
std::int64_t group_of(const Literal& sizes, std::int64_t batch, std::int64_t place) {
  const std::int64_t groups = sizes.type().dims().back();
  const std::int64_t first = sizes.type().ndim() > 1 ? batch * groups : 0;
  for (std::int64_t g = 0; g < groups; ++g) {
    place -= element_as_int(sizes, first + g);
    if (place < 0) return g;
  }
  return -1;
}

Literal evaluate_ragged_dot(const EvalContext& context) {
  const OpView& view = context.view;
  const auto& a = view.as<RaggedDotAttributes>();
  const Dims left = lhs_free(view);
  const Dims right = rhs_free(view);
  const bool by_group = has_ragged_contraction(view);
  const Dims batch_sizes = sizes_of(view.operands[0], a.lhs_batch_dims);
  Dims box = batch_sizes;
  for (const auto n : sizes_of(view.operands[0], left)) box.push_back(n);
  for (const auto n : sizes_of(view.operands[1], right)) box.push_back(n);
  const Dims lhs_strides = row_major_strides(view.operands[0].dims());
  const Dims rhs_strides = row_major_strides(view.operands[1].dims());
  const Dims batch_strides = row_major_strides(batch_sizes);
  std::vector<double> sums(static_cast<std::size_t>(view.result.element_count()));
  Dims lhs_at(view.operands[0].dims().size());
  std::int64_t next = 0;
  for_each_index(box, [&](const Dims& index) {
    std::int64_t batch = 0;
    std::int64_t rhs_base = 0;
    std::size_t i = 0;
    for (std::size_t d = 0; d < a.lhs_batch_dims.size(); ++d, ++i) {
      batch += index[i] * batch_strides[d];
      at(lhs_at, a.lhs_batch_dims[d]) = index[i];
      rhs_base += index[i] * at(rhs_strides, a.rhs_batch_dims[d]);
    }
    for (const auto d : left) at(lhs_at, d) = index[i++];
    for (const auto d : right) rhs_base += index[i++] * at(rhs_strides, d);
    for_each_index(sizes_of(view.operands[0], a.lhs_contracting_dims), [&](const Dims& k) {
      std::int64_t rhs_place = rhs_base;
      for (std::size_t d = 0; d < k.size(); ++d) {
        at(lhs_at, a.lhs_contracting_dims[d]) = k[d];
        rhs_place += k[d] * at(rhs_strides, a.rhs_contracting_dims[d]);
      }
      const std::int64_t group = group_of(context.operands[2], batch, at(lhs_at, a.lhs_ragged_dims[0]));
      if (group < 0) return;
      if (!a.rhs_group_dims.empty()) rhs_place += group * at(rhs_strides, a.rhs_group_dims[0]);
      const std::int64_t lhs_place =
          std::inner_product(lhs_at.begin(), lhs_at.end(), lhs_strides.begin(), std::int64_t{0});
      at(sums, (by_group ? group * product(box) : 0) + next) +=
          element_as_double(context.operands[0], lhs_place) * element_as_double(context.operands[1], rhs_place);
    });
    ++next;
  });
  Literal out(view.result);
  visit_dtype(view.result.dtype(), [&]<class T>() {
    auto to = out.mutable_data<T>();
    for (std::size_t i = 0; i < to.size(); ++i) {
      if constexpr (is_float(kDTypeOf<T>))
        to[i] = static_cast<T>(sums[i]);
      else
        to[i] = static_cast<T>(static_cast<std::int64_t>(sums[i]));
    }
  });
  return out;
}

// The ragged dim and the groups must be unsharded: the group of a position depends on all previous sizes.
FactorMap factors_ragged_dot(const OpView& view) {
  const auto& a = view.as<RaggedDotAttributes>();
  FactorMap map;
  TensorFactors lhs(view.operands[0].dims().size());
  TensorFactors rhs(view.operands[1].dims().size());
  TensorFactors result;
  TensorFactors sizes;
  const auto kind = [&](std::int64_t d, FactorKind other) {
    return d == a.lhs_ragged_dims[0] ? FactorKind::kBlocked : other;
  };
  if (has_ragged_contraction(view)) result.push_back({map.add(view.result.dim(0), FactorKind::kBlocked)});
  for (std::size_t i = 0; i < a.lhs_batch_dims.size(); ++i) {
    const auto d = a.lhs_batch_dims[i];
    at(lhs, d) = at(rhs, a.rhs_batch_dims[i]) = {map.add(at(view.operands[0].dims(), d), kind(d, FactorKind::kPass))};
    result.push_back(at(lhs, d));
    if (view.operands[2].ndim() > 1) sizes.push_back(at(lhs, d));
  }
  for (const auto d : lhs_free(view)) {
    at(lhs, d) = {map.add(at(view.operands[0].dims(), d), kind(d, FactorKind::kPass))};
    result.push_back(at(lhs, d));
  }
  for (const auto d : rhs_free(view)) {
    at(rhs, d) = {map.add(at(view.operands[1].dims(), d))};
    result.push_back(at(rhs, d));
  }
  for (std::size_t i = 0; i < a.lhs_contracting_dims.size(); ++i) {
    const auto d = a.lhs_contracting_dims[i];
    at(lhs, d) =
        at(rhs, a.rhs_contracting_dims[i]) = {map.add(at(view.operands[0].dims(), d), kind(d, FactorKind::kReduce))};
  }
  for (const auto d : a.rhs_group_dims) at(rhs, d) = {map.add(at(view.operands[1].dims(), d), FactorKind::kBlocked)};
  sizes.push_back({map.add(view.operands[2].dims().back(), FactorKind::kBlocked)});
  map.operands = {std::move(lhs), std::move(rhs), std::move(sizes)};
  map.results = {std::move(result)};
  return map;
}

Linearity linearity_ragged_dot(const OpView&, int operand) {
  return operand < 2 ? Linearity::kLinear : Linearity::kNone;
}

double flops_ragged_dot(const OpView& view) {
  const auto rows = static_cast<double>(view.operands[0].element_count());
  return 2 * rows * static_cast<double>(product(sizes_of(view.operands[1], rhs_free(view))));
}

}  // namespace

const OpDef kRaggedDot{.name = "ragged-dot",
                       .min_operands = 3,
                       .max_operands = 3,
                       .parse = parse_attributes<RaggedDotAttributes>,
                       .infer = infer_ragged_dot,
                       .evaluate = evaluate_ragged_dot,
                       .factors = factors_ragged_dot,
                       .linearity = linearity_ragged_dot,
                       .localize = localize_declared,
                       .flops = flops_ragged_dot};

}  // namespace rows

Value ops::ragged_dot(Value lhs, Value rhs, Value group_sizes, RaggedDotAttributes attributes) {
  return lhs.builder->emit(rows::kRaggedDot, {lhs, rhs, group_sizes}, make_attributes(std::move(attributes)));
}

}  // namespace tessera
