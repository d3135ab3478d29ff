// SPDX-License-Identifier: Apache-2.0
// Functions with a bound on the number of results: a running sum of the mask gives each result its position.
#include "tessera/frontend/tensor/bounded.h"

#include "tensor/functions/along_dim.h"
#include "tensor/number_types.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tensor/creation.h"
#include "tessera/frontend/tensor/indexing.h"
#include "tessera/frontend/tensor/sorting.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tracing/recorded.h"

namespace tessera {
namespace {

std::int64_t checked_size(const std::optional<std::int64_t>& size, std::string_view call,
                          std::string_view masked_form) {
  require(
      size.has_value(),
      "the number of results depends on the data, but programs have fixed shapes; give a bound, {} with "
      "{{.size = N}}, which keeps the first N results and fills the rest with fill_value{}, or read the tensor with "
      "to_host() and compute on the host",
      call, masked_form);
  require(*size >= 0, "the bound must not be negative, got {}", *size);
  return *size;
}

// The value of results that are missing.
Value filler(const Type& type, double value) {
  check_number(value, type, "the result", kTypeAdvice);
  return trace().full(type, value);
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
  return {scatter_along(s32_full(size, 0), place, s32_iota(builder, n), 0, Reduction::kSum),
          ops::compare(s32_iota(builder, size), count, CompareDirection::kLt)};
}

void require_s32_positions(const Type& type) {
  require(type.element_count() < (std::int64_t{1} << 31), "{} has more than 2^31 elements", type);
}

}  // namespace

Tensor nonzero(Operand x, BoundedOptions options) {
  return recorded("nonzero", x, [&](Value v) {
    const std::int64_t size = checked_size(options.size, "nonzero(x, ...)", "");
    require_s32_positions(v.type());
    const int ndim = v.type().ndim();
    require(ndim > 0, "needs at least one dim, got {}", v.type());
    if (v.type().element_count() == 0) return filler(Type::array(DType::kS32, {size, ndim}), options.fill_value);
    const Found found = first_positions(truth(flat(v)), size);
    const Dims strides = row_major_strides(v.type().dims());
    std::vector<Value> columns;
    for (int d = 0; d < ndim; ++d) {
      const Value quotient = ops::divide(found.positions, s32_full(size, at(strides, d)));
      const Value position = ops::remainder(quotient, s32_full(size, v.type().dim(d)));
      const Value filled = ops::select(found.is_found, position, filler(position.type(), options.fill_value));
      columns.push_back(ops::reshape(filled, {size, 1}));
    }
    return ops::concatenate(columns, 1);
  });
}

Tensor masked_select(Operand x, Operand mask, BoundedOptions options) {
  return recorded("masked_select", x, mask, [&](Value v, Value m) {
    const std::int64_t size =
        checked_size(options.size, "masked_select(x, mask, ...)", ", or keep the shape with where(mask, x, 0)");
    require(m.type().dtype() == DType::kPred, "the mask must be pred, got {}", m.type());
    const Dims dims = broadcast_dims(v.type().dims(), m.type().dims());
    const Value elements = flat(broadcast_value(v, dims));
    require_s32_positions(elements.type());
    if (elements.type().element_count() == 0) return filler(Type::array(v.type().dtype(), {size}), options.fill_value);
    const Found found = first_positions(flat(broadcast_value(m, dims)), size);
    const Value values = gather_along(elements, found.positions, 0);
    return ops::select(found.is_found, values, filler(values.type(), options.fill_value));
  });
}

UniqueResult unique(Operand x, BoundedOptions options) {
  const SortResult sorted = [&] {
    in_context("unique", {&x.tensor()}, x.where(), [&] {
      checked_size(options.size, "unique(x, ...)", "");
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
    counts = scatter_along(s32_full(size, 0), place, s32_full(n, 1), 0, Reduction::kSum);
    inverse = ops::reshape(scatter_along(s32_full(n, 0), order, place, 0, Reduction::kSum), x.tensor().dims());
    const Value values =
        scatter_along(trace().full(Type::array(v.type().dtype(), {size}), 0), place_of_first, v, 0, Reduction::kSum);
    const Value is_there = ops::compare(s32_iota(builder, size), ops::splat(count, {size}), CompareDirection::kLt);
    return ops::select(is_there, values, filler(values.type(), options.fill_value));
  });
  out.inverse = trace().wrap(inverse);
  out.counts = trace().wrap(counts);
  out.count = trace().wrap(count);
  return out;
}

Tensor bincount(Operand ids, BincountOptions options) {
  const bool has_weights = !options.weights.is_null();
  const Operand weights(has_weights ? options.weights : ids.tensor(), ids.where());
  return recorded("bincount", ids, weights, [&](Value v, Value w) {
    require(options.size.has_value() && *options.size >= 0,
            "the number of counts depends on the data, but programs have fixed shapes; give it, as in "
            "bincount(ids, {{.size = N}}), which counts the ids 0 to N - 1");
    require(is_integer(v.type().dtype()) && v.type().ndim() == 1, "the ids must be a vector of integers, got {}",
            v.type());
    require(w.type().dims() == v.type().dims(), "needs a weight for each of {}, got {}", v.type(), w.type());
    const Value each = has_weights ? w : s32_full(v.type().element_count(), 1);
    const DType dtype = each.type().dtype();
    const Value none = trace().full(Type::array(widened(each).type().dtype(), {*options.size}), 0);
    if (v.type().element_count() == 0) return narrowed(none, dtype);
    return narrowed(scatter_along(none, v, widened(each), 0, Reduction::kSum), dtype);
  });
}

namespace {

// The position of the element whose repetitions include each of `size` results; the number of elements if there is none.
Tensor repeated_positions(const Tensor& counts, std::int64_t n, const RepeatOptions& options,
                          const std::source_location& where) {
  return recorded("repeat_interleave", Operand(counts, where), [&](Value c) {
    const std::int64_t size = checked_size(options.size, "repeat_interleave(x, counts, ...)", "");
    require(is_integer(c.type().dtype()) && c.type().ndim() <= 1, "the counts must be a vector of integers, got {}",
            c.type());
    require(c.type().element_count() == n, "needs a count for each of {} elements, got {}", n, c.type());
    const Value ends = running_sum(ops::convert(ops::reshape(c, {n}), DType::kS32), 0);
    return insertion_points(ends, s32_iota(*c.builder, size), {.right = true});
  });
}

}  // namespace

Tensor repeat_interleave(Operand x, const Tensor& counts, RepeatOptions options) {
  const Tensor lines = options.dim ? x.tensor() : x.tensor().reshape({-1}, x.where());
  const int d = in_context("repeat_interleave", {&x.tensor(), &counts}, x.where(),
                           [&] { return checked_dim(lines.type(), options.dim.value_or(0)); });
  const std::int64_t n = lines.dim(d);
  const Tensor positions = repeated_positions(counts, n, options, x.where());
  Dims sizes = lines.dims();
  sizes[static_cast<std::size_t>(d)] = *options.size;
  if (n == 0) return full(sizes, options.fill_value, lines.dtype(), x.where());
  const Tensor found = index_select({lines, x.where()}, d, {positions, x.where()});
  return recorded("repeat_interleave", {found, x.where()}, {positions, x.where()}, [&](Value v, Value p) {
    const Value is_there = ops::compare(p, constant_like(p, static_cast<double>(n)), CompareDirection::kLt);
    return ops::select(ops::broadcast(is_there, v.type().dims(), {d}), v, filler(v.type(), options.fill_value));
  });
}

}  // namespace tessera
