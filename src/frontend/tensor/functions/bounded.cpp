// SPDX-License-Identifier: Apache-2.0
// Functions with a bound on the number of results: a running sum of the mask gives each result its position.
#include "tessera/frontend/tensor/bounded.h"

#include "tensor/functions/along_dim.h"
#include "tensor/number_types.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tensor/sorting.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tracing/recorded.h"

namespace tessera {
namespace {

std::int64_t checked_size(const BoundedOptions& options, std::string_view call, std::string_view masked_form) {
  require(
      options.size.has_value(),
      "the number of results depends on the data, but programs have fixed shapes; give a bound, {} with "
      "{{.size = N}}, which keeps the first N results and fills the rest with fill_value{}, or read the tensor with "
      "to_host() and compute on the host",
      call, masked_form);
  require(*options.size >= 0, "the bound must not be negative, got {}", *options.size);
  return *options.size;
}

// The value of results that are missing.
Value filler(const Type& type, const BoundedOptions& options) {
  check_number(options.fill_value, type, "the result", kTypeAdvice);
  return trace().full(type, options.fill_value);
}

Value flat(Value x) { return ops::reshape(x, {x.type().element_count()}); }
Value truth(Value x) {
  return x.type().dtype() == DType::kPred ? x : ops::compare(x, constant_like(x, 0), CompareDirection::kNe);
}
Value s32_iota(Builder& builder, std::int64_t count) {
  return ops::iota(builder, Type::array(DType::kS32, {count}), 0);
}
Value s32_full(std::int64_t count, std::int64_t value) {
  return trace().full(Type::array(DType::kS32, {count}), static_cast<double>(value));
}

// The first `size` positions at which a vector is true.
struct Found {
  Value positions;  // s32[size]; 0 beyond the last one
  Value is_found;   // pred[size]
};
Found first_positions(Value mask, std::int64_t size) {
  Builder& builder = *mask.builder;
  const std::int64_t n = mask.type().element_count();
  const Value ones = ops::convert(mask, DType::kS32);
  // Positions that are not wanted are out of range.
  const Value place = ops::select(mask, ops::subtract(running_sum(ones, 0), s32_full(n, 1)), s32_full(n, size));
  const Value count = ops::splat(ops::reduce(ones, Reduction::kSum, {0}), {size});
  return {scatter_add_along(s32_full(size, 0), place, s32_iota(builder, n), 0),
          ops::compare(s32_iota(builder, size), count, CompareDirection::kLt)};
}

void require_s32_positions(const Type& type) {
  require(type.element_count() < (std::int64_t{1} << 31), "{} has more than 2^31 elements", type);
}

}  // namespace

Tensor nonzero(Operand x, BoundedOptions options) {
  return recorded("nonzero", x, [&](Value v) {
    const std::int64_t size = checked_size(options, "nonzero(x, ...)", "");
    require_s32_positions(v.type());
    const int ndim = v.type().ndim();
    require(ndim > 0, "needs at least one dim, got {}", v.type());
    if (v.type().element_count() == 0) return filler(Type::array(DType::kS32, {size, ndim}), options);
    const Found found = first_positions(truth(flat(v)), size);
    const Dims strides = row_major_strides(v.type().dims());
    std::vector<Value> columns;
    for (int d = 0; d < ndim; ++d) {
      const Value quotient = ops::divide(found.positions, s32_full(size, at(strides, d)));
      const Value position = ops::remainder(quotient, s32_full(size, v.type().dim(d)));
      const Value filled = ops::select(found.is_found, position, filler(position.type(), options));
      columns.push_back(ops::reshape(filled, {size, 1}));
    }
    return ops::concatenate(columns, 1);
  });
}

Tensor masked_select(Operand x, Operand mask, BoundedOptions options) {
  return recorded("masked_select", x, mask, [&](Value v, Value m) {
    const std::int64_t size =
        checked_size(options, "masked_select(x, mask, ...)", ", or keep the shape with where(mask, x, 0)");
    require(m.type().dtype() == DType::kPred, "the mask must be pred, got {}", m.type());
    const Dims dims = broadcast_dims(v.type().dims(), m.type().dims());
    const Value elements = flat(broadcast_value(v, dims));
    require_s32_positions(elements.type());
    if (elements.type().element_count() == 0) return filler(Type::array(v.type().dtype(), {size}), options);
    const Found found = first_positions(flat(broadcast_value(m, dims)), size);
    const Value values = gather_along(elements, found.positions, 0);
    return ops::select(found.is_found, values, filler(values.type(), options));
  });
}

UniqueResult unique(Operand x, BoundedOptions options) {
  const SortResult sorted = [&] {
    in_context("unique", {&x.tensor()}, x.where(), [&] {
      checked_size(options, "unique(x, ...)", "");
      require(x.tensor().numel() > 0, "needs at least one element, got {}", x.tensor().type());
      require_s32_positions(x.tensor().type());
    });
    return sort(Operand(x.tensor().reshape({-1}, x.where()), x.where()));
  }();
  const std::int64_t size = *options.size;
  UniqueResult out;
  Value inverse;
  Value counts;
  Value count;
  out.values = recorded("unique", Operand(sorted.values, x.where()), sorted.indices, [&](Value v, Value order) {
    Builder& builder = *v.builder;
    const std::int64_t n = v.type().element_count();
    // True where a value differs from the one before it.
    const Value differs =
        ops::compare(ops::slice_dim(v, 0, 1, n), ops::slice_dim(v, 0, 0, n - 1), CompareDirection::kNe);
    const Value is_first = ops::concatenate({trace().full(Type::array(DType::kPred, {1}), 1), differs}, 0);
    const Value firsts = ops::convert(is_first, DType::kS32);
    const Value place = ops::subtract(running_sum(firsts, 0), s32_full(n, 1));
    const Value place_of_first = ops::select(is_first, place, s32_full(n, size));
    count = ops::reduce(firsts, Reduction::kSum, {0});
    counts = scatter_add_along(s32_full(size, 0), place, s32_full(n, 1), 0);
    inverse = ops::reshape(scatter_add_along(s32_full(n, 0), order, place, 0), x.tensor().dims());
    const Value values =
        scatter_add_along(trace().full(Type::array(v.type().dtype(), {size}), 0), place_of_first, v, 0);
    const Value is_there = ops::compare(s32_iota(builder, size), ops::splat(count, {size}), CompareDirection::kLt);
    return ops::select(is_there, values, filler(values.type(), options));
  });
  out.inverse = trace().wrap(inverse);
  out.counts = trace().wrap(counts);
  out.count = trace().wrap(count);
  return out;
}

}  // namespace tessera
