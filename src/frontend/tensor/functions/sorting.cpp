// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/tensor/sorting.h"

#include <limits>

#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/linear_algebra.h"
#include "tessera/ops/structural.h"
#include "tracing/recorded.h"

namespace tessera {
namespace {

// Compares two keys; the positions of the elements, which follow them, are not compared.
ComputationId sort_comparator(ProgramBuilder& program, DType dtype, bool descending) {
  Builder comparator = program.computation(descending ? "descending" : "ascending");
  const Value a = ops::parameter(comparator, 0, Type::scalar(dtype), "a");
  const Value b = ops::parameter(comparator, 1, Type::scalar(dtype), "b");
  ops::parameter(comparator, 2, Type::scalar(DType::kS32), "position_a");
  ops::parameter(comparator, 3, Type::scalar(DType::kS32), "position_b");
  const Value is_first = ops::compare(a, b, descending ? CompareDirection::kGt : CompareDirection::kLt,
                                      is_float(dtype) ? CompareType::kTotalOrder : CompareType::kDefault);
  return program.add(std::move(comparator), is_first);
}

// Gives every NaN the same bits. In the total order, they are then equal and larger than all numbers; NaNs with the sign
// bit, such as 0/0 on x86, would be smaller.
Value with_one_nan(Value x) {
  if (!is_float(x.type().dtype())) return x;
  const Value is_nan = ops::compare(x, x, CompareDirection::kNe);
  return ops::select(is_nan, constant_like(x, std::numeric_limits<double>::quiet_NaN()), x);
}

// (sorted values, positions)
Value sorted_pair(Value x, const SortOptions& options) {
  require(x.type().dtype() != DType::kPred, "{} has no order; convert it with .to() first", x.type());
  const int d = checked_dim(x.type(), options.dim);
  const Value positions = ops::iota(*x.builder, x.type().with_dtype(DType::kS32), d);
  return ops::sort({with_one_nan(x), positions}, d, true,
                   sort_comparator(x.builder->program(), x.type().dtype(), options.descending));
}

}  // namespace

SortResult sort(Operand x, SortOptions options) {
  SortResult out;
  Value indices;
  out.values = recorded("sort", x, [&](Value v) {
    const Value pair = sorted_pair(v, options);
    indices = ops::get_tuple_element(pair, 1);
    return ops::get_tuple_element(pair, 0);
  });
  out.indices = trace().wrap(indices);
  return out;
}

Tensor argsort(Operand x, SortOptions options) {
  return recorded("argsort", x, [&](Value v) { return ops::get_tuple_element(sorted_pair(v, options), 1); });
}

SortResult topk(Operand x, std::int64_t k, TopKOptions options) {
  SortResult out;
  Value indices;
  out.values = recorded("topk", x, [&](Value v) {
    const int d = checked_dim(v.type(), options.dim);
    const int last = v.type().ndim() - 1;
    require(k >= 0 && k <= v.type().dim(d), "k={}, but dim {} of {} has {} elements", k, options.dim, v.type(),
            v.type().dim(d));
    Dims exchanged;
    for (int i = 0; i <= last; ++i) exchanged.push_back(i);
    std::swap(exchanged[static_cast<std::size_t>(d)], exchanged.back());
    const auto turned = [&](Value part) { return d == last ? part : ops::transpose(part, exchanged); };
    const Value pair = ops::topk(turned(with_one_nan(v)), k, options.largest);
    indices = turned(ops::get_tuple_element(pair, 1));
    return turned(ops::get_tuple_element(pair, 0));
  });
  out.indices = trace().wrap(indices);
  return out;
}

}  // namespace tessera
