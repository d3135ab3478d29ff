// SPDX-License-Identifier: Apache-2.0
#include "tensor/functions/labelled.h"

#include <algorithm>

#include "tessera/base/text.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tracing/recorded.h"

namespace tessera {
namespace {

bool has_label(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}
std::int64_t position_of(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) - labels.begin();
}
Dims positions_of(const Labels& labels, const Labels& wanted) {
  Dims out;
  for (const int label : wanted) out.push_back(position_of(labels, label));
  return out;
}
template <class Keep>
Labels only(const Labels& labels, Keep&& keep) {
  Labels out;
  std::copy_if(labels.begin(), labels.end(), std::back_inserter(out), keep);
  return out;
}

// The sizes of `labels`, which occur in x or in y.
Dims sizes_of(const Labels& labels, const Labelled& x, const Labelled& y) {
  Dims out;
  for (const int label : labels) {
    const Labelled& owner = has_label(x.labels, label) ? x : y;
    out.push_back(at(owner.value.type().dims(), position_of(owner.labels, label)));
  }
  return out;
}

// Dims in the order of `labels`, repeated along those that x does not have.
Value spread(const Labelled& x, const Labels& labels, const Dims& sizes) {
  const Labels own = only(labels, [&](int label) { return has_label(x.labels, label); });
  const Value ordered = in_order(x, own);
  return own.size() == labels.size() ? ordered : ops::broadcast(ordered, sizes, positions_of(labels, own));
}

// Neither value has a dim that only it has and that is kept, or there is nothing to sum: an elementwise product.
Labelled multiply(const Labelled& x, const Labelled& y, const Labels& kept, const Labels& summed) {
  const DType dtype = x.value.type().dtype();
  Labels all = only(kept, [&](int label) { return has_label(x.labels, label) || has_label(y.labels, label); });
  const std::size_t count = all.size();
  all.insert(all.end(), summed.begin(), summed.end());
  const Dims sizes = sizes_of(all, x, y);
  const auto factor = [&](const Labelled& v) {
    const Value repeated = spread(v, all, sizes);
    return summed.empty() ? repeated : widened(repeated);
  };
  Value out = ops::multiply(factor(x), factor(y));
  if (!summed.empty()) {
    Dims dims;
    for (std::size_t d = count; d < all.size(); ++d) dims.push_back(static_cast<std::int64_t>(d));
    out = narrowed(ops::reduce(out, Reduction::kSum, std::move(dims)), dtype);
  }
  all.resize(count);
  return {out, all};
}

}  // namespace

Value in_order(const Labelled& x, const Labels& labels) {
  const Labels own = only(labels, [&](int label) { return has_label(x.labels, label); });
  const Value ordered = own == x.labels ? x.value : ops::transpose(x.value, positions_of(x.labels, own));
  if (own.size() == labels.size()) return ordered;
  Dims sizes;
  for (const int label : labels)
    sizes.push_back(has_label(own, label) ? at(ordered.type().dims(), position_of(own, label)) : 1);
  return ops::reshape(ordered, std::move(sizes));
}

Labelled sum_others(Labelled x, const Labels& kept) {
  const Labels rest = only(x.labels, [&](int label) { return has_label(kept, label); });
  if (rest.size() == x.labels.size()) return x;
  Dims dims;
  for (int d = 0; d < isize(x.labels); ++d)
    if (!has_label(kept, at(x.labels, d))) dims.push_back(d);
  const DType dtype = x.value.type().dtype();
  return {narrowed(ops::reduce(widened(x.value), Reduction::kSum, std::move(dims)), dtype), rest};
}

Labelled contract(Labelled x, Labelled y, const Labels& kept) {
  Labels of_both = only(x.labels, [&](int label) { return has_label(y.labels, label); });
  const auto needed_by = [&](const Labels& other) {
    Labels out = kept;
    out.insert(out.end(), other.begin(), other.end());
    return out;
  };
  x = sum_others(std::move(x), needed_by(of_both));
  y = sum_others(std::move(y), needed_by(of_both));
  const auto is_shared = [&](int label) { return has_label(of_both, label); };
  const Labels batch = only(kept, is_shared);
  const Labels summed = only(x.labels, [&](int label) { return is_shared(label) && !has_label(kept, label); });
  const auto free_of = [&](const Labelled& v) { return only(v.labels, [&](int l) { return !is_shared(l); }); };
  if (summed.empty() || (free_of(x).empty() && free_of(y).empty())) return multiply(x, y, kept, summed);
  // The free dims of lhs precede those of rhs in the result.
  const Labels free = only(
      kept, [&](int label) { return !is_shared(label) && (has_label(x.labels, label) || has_label(y.labels, label)); });
  if (has_label(y.labels, free.front())) std::swap(x, y);
  Labels labels = batch;
  for (const Labelled* side : {&x, &y})
    for (const int label : free_of(*side)) labels.push_back(label);
  const Value out = ops::dot(x.value, y.value,
                             {positions_of(x.labels, batch), positions_of(x.labels, summed),
                              positions_of(y.labels, batch), positions_of(y.labels, summed)});
  return {out, labels};
}

Value diagonal_of(Value x, int a, int b) {
  const Type indices = x.type().with_dtype(DType::kS32);
  const Value same =
      ops::compare(ops::iota(*x.builder, indices, a), ops::iota(*x.builder, indices, b), CompareDirection::kEq);
  // One element of each line is kept, so that the sum does not round.
  return ops::reduce(ops::select(same, x, constant_like(x, 0)), Reduction::kSum, {b});
}

}  // namespace tessera
