// SPDX-License-Identifier: Apache-2.0
// Ops that chain well. Most of a random program consists of them.
#include <algorithm>

#include "random/generator.h"

#include "tessera/base/text.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"
#include "tessera/ops/windows.h"

namespace tessera::testing {
namespace {

const std::vector<std::int64_t> kSizes = {1, 2, 3, 4, 5, 6, 7, 8, 11, 12};

}  // namespace

Dims Generator::dims() {
  Dims out(static_cast<std::size_t>(1 + dice_.below(3)));
  for (auto& size : out) size = dice_.pick(kSizes);
  return out;
}

std::optional<Entry> Generator::any_entry() {
  if (scope_->values.empty()) return std::nullopt;
  return dice_.pick(scope_->values);
}

Value Generator::any_value(DType dtype) {
  std::vector<Value> fitting;
  for (const Entry& entry : scope_->values)
    if (entry.value.type().dtype() == dtype) fitting.push_back(entry.value);
  return fitting.empty() ? ramp({}) : dice_.pick(fitting);
}

Value Generator::number(DType dtype, double value) {
  if (!is_complex(dtype)) return ops::scalar(builder(), dtype, value);
  const DType real = real_dtype(dtype);
  return ops::complex(ops::scalar(builder(), real, value), ops::scalar(builder(), real, 1));
}

Value Generator::with_dims(const Dims& dims, DType dtype) {
  std::vector<Value> fitting;
  for (const Entry& entry : scope_->values)
    if (entry.value.type().dims() == dims && entry.value.type().dtype() == dtype) fitting.push_back(entry.value);
  if (!fitting.empty() && !dice_.one_in(5)) return dice_.pick(fitting);
  return ops::splat(number(dtype, static_cast<double>(dice_.below(5)) - (is_float(dtype) ? 2 : 0)), dims);
}

Value Generator::chained(Value x) {
  using Maker = Value (Generator::*)(Value);
  static const std::vector<Maker> kMakers = {
      &Generator::broadcast, &Generator::reshape, &Generator::transpose, &Generator::slice,         &Generator::pad,
      &Generator::concat,    &Generator::reverse, &Generator::rows,      &Generator::dynamic_slice, &Generator::update,
      &Generator::mark,      &Generator::roll,    &Generator::scatter,   &Generator::sort,          &Generator::choose};
  const bool ordered = !is_complex(x.type().dtype());
  constexpr std::int64_t kUnordered = 3;  // the last ones need no order of elements
  return (this->*at(kMakers, dice_.below(isize(kMakers) - (ordered ? 0 : kUnordered))))(x);
}

Value Generator::float_op(Value x) {
  using Maker = Value (Generator::*)(Value);
  static const std::vector<Maker> kMakers = {
      &Generator::binary,      &Generator::unary,       &Generator::reduce,        &Generator::reduce,
      &Generator::dot,         &Generator::dot,         &Generator::softmax,       &Generator::bits,
      &Generator::convolution, &Generator::convolution, &Generator::reduce_window, &Generator::select_and_scatter,
      &Generator::ramp};
  return (this->*dice_.pick(kMakers))(x);
}

Value Generator::binary(Value x) {
  const Value y = with_dims(x.type().dims(), x.type().dtype());
  switch (dice_.below(5)) {
    case 0: return ops::add(x, y);
    case 1: return ops::subtract(x, y);
    case 2: return ops::multiply(x, y);
    case 3: return ops::maximum(x, y);
    default: return ops::minimum(y, x);
  }
}
Value Generator::unary(Value x) {
  switch (dice_.below(4)) {
    case 0: return ops::tanh(x);
    case 1: return ops::negate(x);
    case 2: return ops::abs(x);
    default: return ops::sin(x);
  }
}
Value Generator::broadcast(Value x) {
  if (x.type().ndim() > 3) return {};
  Dims result = x.type().dims();
  Dims dimensions;
  const auto place = dice_.below(isize(result) + 1);
  for (int d = 0; d < isize(result); ++d) dimensions.push_back(d < place ? d : d + 1);
  result.insert(result.begin() + place, dice_.pick(kSizes));
  return ops::broadcast(x, result, dimensions);
}
Value Generator::reshape(Value x) {
  Dims result;
  std::int64_t rest = x.type().element_count();
  while (rest > 1 && isize(result) < 3) {
    std::vector<std::int64_t> divisors;
    for (std::int64_t f = 2; f <= rest; ++f)
      if (rest % f == 0) divisors.push_back(f);
    const auto f = isize(result) == 2 ? rest : dice_.pick(divisors);
    result.push_back(f);
    rest /= f;
  }
  return ops::reshape(x, result);
}
Value Generator::transpose(Value x) {
  Dims permutation;
  for (int d = 0; d < x.type().ndim(); ++d)
    permutation.insert(permutation.begin() + dice_.below(isize(permutation) + 1), d);
  return ops::transpose(x, permutation);
}
Value Generator::slice(Value x) {
  std::vector<SliceRange> ranges;
  for (const auto size : x.type().dims()) {
    const auto start = dice_.one_in(2) ? 0 : dice_.below(size);
    const auto limit = dice_.one_in(2) ? size : start + 1 + dice_.below(size - start);
    ranges.push_back({start, limit, 1 + dice_.below(2)});
  }
  return ops::slice(x, ranges);
}
Value Generator::pad(Value x) {
  if (x.type().ndim() == 0) return {};
  std::vector<PaddingDim> padding;
  for (int d = 0; d < x.type().ndim(); ++d)
    padding.push_back(dice_.one_in(2) ? PaddingDim{}
                                      : PaddingDim{dice_.below(5) - 1, dice_.below(5) - 1, dice_.below(3) / 2});
  for (int d = 0; d < x.type().ndim(); ++d)
    if (at(padding, d).low + at(padding, d).high + x.type().dim(d) < 0) return {};
  return ops::pad(x, number(x.type().dtype(), 0.5), padding);
}
Value Generator::concat(Value x) {
  if (x.type().ndim() == 0) return {};
  const auto dim = dice_.below(x.type().ndim());
  std::vector<Value> parts{x};
  for (auto more = dice_.below(3); more > 0; --more) {
    Dims dims = x.type().dims();
    at(dims, dim) = dice_.one_in(2) ? at(dims, dim) : dice_.pick(kSizes);
    parts.insert(parts.begin() + dice_.below(isize(parts) + 1), with_dims(dims, x.type().dtype()));
  }
  return ops::concatenate(parts, static_cast<int>(dim));
}
// Rolls along one dim, in the form of jnp.roll.
Value Generator::roll(Value x) {
  if (x.type().ndim() == 0) return {};
  const int dim = static_cast<int>(dice_.below(x.type().ndim()));
  const auto size = x.type().dim(dim);
  const auto shift = dice_.one_in(2) ? 1 : dice_.below(size + 1);
  if (shift > size) return {};
  return ops::concatenate({ops::slice_dim(x, dim, size - shift, size), ops::slice_dim(x, dim, 0, size - shift)}, dim);
}
Value Generator::convolution(Value x) {
  const int ndim = x.type().ndim();
  if (ndim < 2) return {};
  ConvolutionAttributes a;
  a.dim_labels = random_labels(dice_, ndim);
  const auto features = x.type().dim(static_cast<int>(a.dim_labels.lhs_feature));
  const auto batch = x.type().dim(static_cast<int>(a.dim_labels.lhs_batch));
  const auto groups = dice_.pick(std::vector<std::int64_t>{1, 2, 3});
  if (dice_.one_in(2) && features % groups == 0) a.feature_group_count = groups;
  if (dice_.one_in(2) && batch % groups == 0 && a.feature_group_count == 1) a.batch_group_count = groups;
  Dims kernel(static_cast<std::size_t>(ndim));
  at(kernel, a.dim_labels.rhs_input) = features / a.feature_group_count;
  at(kernel, a.dim_labels.rhs_output) = (1 + dice_.below(4)) * a.feature_group_count * a.batch_group_count;
  for (int i = 0; i < ndim - 2; ++i) {
    const auto image = x.type().dim(static_cast<int>(at(a.dim_labels.lhs_spatial, i)));
    // Sometimes the kernel is as large as the image, as in a gradient.
    WindowDim w = random_window(dice_, dice_.one_in(4) ? image : 1 + dice_.below(4), true);
    w.reversed = dice_.one_in(3);
    at(kernel, at(a.dim_labels.rhs_spatial, i)) = w.size;
    a.window.dims.push_back(w);
  }
  if (product(kernel) > 500) return {};
  return ops::convolution(x, with_dims(kernel, x.type().dtype()), a);
}
Value Generator::reduce_window(Value x) {
  WindowDims w;
  for (int d = 0; d < x.type().ndim(); ++d)
    w.dims.push_back(dice_.one_in(3) ? WindowDim{} : random_window(dice_, 1 + dice_.below(4), true));
  const std::vector<Reduction> kinds = {Reduction::kSum, Reduction::kSum, Reduction::kMax, Reduction::kMin};
  return ops::reduce_window(x, dice_.pick(kinds), w);
}
Value Generator::select_and_scatter(Value x) {
  if (!is_exact(x)) return {};
  WindowDims w;
  Dims dims;
  for (int d = 0; d < x.type().ndim(); ++d) {
    w.dims.push_back(dice_.one_in(3) ? WindowDim{} : random_window(dice_, 1 + dice_.below(4), false));
    dims.push_back(w.dims.back().count(x.type().dim(d)));
  }
  Builder prefers = program_.computation("prefers");
  const Value a = ops::parameter(prefers, 0, Type::scalar(DType::kF32));
  const Value b = ops::parameter(prefers, 1, Type::scalar(DType::kF32));
  const Value c = ops::compare(a, b, dice_.one_in(2) ? CompareDirection::kGe : CompareDirection::kLt);
  return ops::select_and_scatter(x, with_dims(dims, x.type().dtype()), ops::scalar(builder(), DType::kF32, 0), w,
                                 program_.add(std::move(prefers), c),
                                 ops::reduction_computation(program_, Reduction::kSum, DType::kF32));
}
Value Generator::reverse(Value x) {
  if (x.type().ndim() == 0) return {};
  return ops::reverse(x, {dice_.below(x.type().ndim())});
}
Value Generator::reduce(Value x) {
  Dims dims;
  for (int d = 0; d < x.type().ndim(); ++d)
    if (dice_.one_in(2)) dims.push_back(d);
  const std::vector<Reduction> kinds = {Reduction::kSum, Reduction::kSum, Reduction::kMax, Reduction::kMin};
  return ops::reduce(x, dice_.pick(kinds), dims);
}
Value Generator::dot(Value x) {
  const Value y = any_value(x.type().dtype());
  for (int a = 0; a < x.type().ndim(); ++a)
    for (int b = 0; b < y.type().ndim(); ++b) {
      if (x.type().dim(a) != y.type().dim(b)) continue;
      DotAttributes dims{{}, {a}, {}, {b}};
      for (int c = 0; c < x.type().ndim(); ++c)
        for (int d = 0; d < y.type().ndim(); ++d)
          if (c != a && d != b && dims.lhs_batch_dims.empty() && x.type().dim(c) == y.type().dim(d) &&
              dice_.one_in(2)) {
            dims.lhs_batch_dims = {c};
            dims.rhs_batch_dims = {d};
          }
      return ops::dot(x, y, dims);
    }
  return {};
}
// Returns indices, some of them out of range.
Value Generator::indices(const Dims& dims, std::int64_t range) {
  const Value ramp = ops::iota(builder(), Type::array(DType::kS32, dims), static_cast<int>(dice_.below(isize(dims))));
  const Value scaled = ops::multiply(ramp, ops::splat(ops::scalar(builder(), DType::kS32, 3), dims));
  const Value shift =
      ops::splat(ops::scalar(builder(), DType::kS32, static_cast<double>(dice_.below(range + 2) - 2)), dims);
  return ops::subtract(scaled, shift);
}
Value Generator::rows(Value x) {
  if (x.type().ndim() == 0) return {};
  return ops::take_rows(x, indices({dice_.pick(kSizes)}, x.type().dim(0)));
}
Value Generator::scatter(Value x) {
  if (x.type().ndim() == 0) return {};
  Dims dims = x.type().dims();
  dims[0] = dice_.pick(kSizes);
  Dims window;
  for (int d = 1; d < isize(dims); ++d) window.push_back(d);
  const ScatterAttributes attributes{.update_window_dims = window,
                                     .inserted_window_dims = {0},
                                     .scatter_dims_to_operand_dims = {0},
                                     .input_batching_dims = {},
                                     .scatter_indices_batching_dims = {},
                                     .index_vector_dim = 1};
  const DType dtype = x.type().dtype();
  const Reduction reduction = dtype == DType::kPred ? Reduction::kOr : Reduction::kSum;
  return ops::scatter({x}, indices({dims[0]}, x.type().dim(0)), {with_dims(dims, x.type().dtype())}, attributes,
                      ops::reduction_computation(program_, reduction, dtype));
}
// Returns an element of some value as an index.
Value Generator::drawn_index() {
  std::vector<Value> exact;
  for (const Entry& entry : scope_->values)
    if (entry.exact && !is_complex(entry.value.type().dtype())) exact.push_back(entry.value);
  if (exact.empty()) return ops::scalar(builder(), DType::kS32, 1);
  const Value x = dice_.pick(exact);
  std::vector<SliceRange> ranges;
  for (const auto size : x.type().dims()) {
    const auto i = dice_.below(size);
    ranges.push_back({i, i + 1, 1});
  }
  const Value element = ops::reshape(x.type().ndim() == 0 ? x : ops::slice(x, ranges), {});
  const Value index = ops::convert(element, DType::kS32);
  return is_float(x.type().dtype()) ? ops::add(index, ops::scalar(builder(), DType::kS32, 1)) : index;
}
std::vector<Value> Generator::starts(Value x) {
  std::vector<Value> out;
  for (int d = 0; d < x.type().ndim(); ++d)
    out.push_back(dice_.one_in(3)
                      ? drawn_index()
                      : ops::scalar(builder(), DType::kS32, static_cast<double>(dice_.below(x.type().dim(d) + 3) - 1)));
  return out;
}
Value Generator::dynamic_slice(Value x) {
  Dims sizes;
  for (const auto size : x.type().dims()) sizes.push_back(dice_.one_in(2) ? size : 1 + dice_.below(size));
  return ops::dynamic_slice(x, starts(x), sizes);
}
Value Generator::update(Value x) {
  Dims sizes;
  for (const auto size : x.type().dims()) sizes.push_back(dice_.one_in(2) ? size : 1 + dice_.below(size));
  return ops::dynamic_update_slice(x, with_dims(sizes, x.type().dtype()), starts(x));
}
Value Generator::sort(Value x) {
  if (x.type().ndim() == 0) return {};
  Builder less = program_.computation("less");
  const Value a = ops::parameter(less, 0, Type::scalar(x.type().dtype()));
  const Value b = ops::parameter(less, 1, Type::scalar(x.type().dtype()));
  const Value c = ops::compare(a, b, CompareDirection::kLt);
  return ops::sort({x}, static_cast<int>(dice_.below(x.type().ndim())), true, program_.add(std::move(less), c));
}
Value Generator::choose(Value x) {
  const Value y = with_dims(x.type().dims(), x.type().dtype());
  return ops::select(ops::compare(x, y, CompareDirection::kGt), y, x);
}
Value Generator::ramp(Value) {
  const Dims d = dims();
  const Value steps = ops::iota(builder(), Type::array(DType::kF32, d), static_cast<int>(dice_.below(isize(d))));
  return ops::multiply(steps, ops::splat(ops::scalar(builder(), DType::kF32, 0.25), d));
}
Value Generator::mark(Value x) { return ops::sharding_mark(x, shardings_.any(x.type(), scope_->manual)); }
Value Generator::softmax(Value x) {
  if (x.type().ndim() == 0) return {};
  const int dim = static_cast<int>(dice_.below(x.type().ndim()));
  Dims others;
  for (int d = 0; d < x.type().ndim(); ++d)
    if (d != dim) others.push_back(d);
  const Value most = ops::broadcast(ops::reduce(x, Reduction::kMax, {dim}), x.type().dims(), others);
  const Value e = ops::exp(ops::subtract(x, most));
  return ops::divide(e, ops::broadcast(ops::reduce(e, Reduction::kSum, {dim}), x.type().dims(), others));
}
Value Generator::bits(Value x) {
  const Value key = ops::constant(builder(), Literal::from<std::uint32_t>({2}, {7, 11}));
  return ops::add(x, ops::random_uniform(key, x.type().dims(), DType::kF32));
}

}  // namespace tessera::testing
