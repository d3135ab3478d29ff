// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/tensor/products.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "tensor/functions/labelled.h"
#include "tensor/number_types.h"
#include "tessera/base/text.h"
#include "tessera/ops/contraction.h"
#include "tracing/recorded.h"

namespace tessera {

Tensor linear(Operand x, Operand weight) {
  return recorded("linear", x, weight, [](Value v, Value w) {
    require(w.type().ndim() == 2 && v.type().ndim() >= 1 && v.type().dims().back() == w.type().dims().back(),
            "needs x [.., in] and a weight [out, in], got {} and {}", v.type(), w.type());
    return ops::dot(v, w, {{}, {v.type().ndim() - 1}, {}, {1}});
  });
}
Tensor linear(Operand x, Operand weight, Operand bias) { return linear(x, std::move(weight)) + std::move(bias); }

Tensor tensordot(Operand x, Operand y, int dims) {
  in_context("tensordot", {&x.tensor(), &y.tensor()}, x.where(),
             [&] { require(dims >= 0, "the number of dims must not be negative, got {}", dims); });
  std::vector<int> x_dims, y_dims;
  for (int i = 0; i < dims; ++i) {
    x_dims.push_back(i - dims);
    y_dims.push_back(i);
  }
  return tensordot(std::move(x), std::move(y), x_dims, y_dims);
}

Tensor tensordot(Operand x, Operand y, const std::vector<int>& x_dims, const std::vector<int>& y_dims) {
  return recorded("tensordot", x, y, [&](Value v, Value w) {
    require(x_dims.size() == y_dims.size(), "needs as many dims of x as of y, got {} and {}", x_dims.size(),
            y_dims.size());
    DotAttributes dims;
    for (int i = 0; i < isize(x_dims); ++i) {
      dims.lhs_contracting_dims.push_back(checked_dim(v.type(), at(x_dims, i)));
      dims.rhs_contracting_dims.push_back(checked_dim(w.type(), at(y_dims, i)));
    }
    return ops::dot(v, w, std::move(dims));
  });
}

// Dim i of x becomes [size, 1], and that of y [1, size]. Their product has both sizes, which are then merged.
Tensor kron(Operand x, Operand y) {
  return recorded("kron", x, y, [](Value v, Value w) {
    const int ndim = std::max(v.type().ndim(), w.type().ndim());
    const auto size_of = [ndim](Value of, int d) {
      const int own = d - (ndim - of.type().ndim());
      return own < 0 ? 1 : of.type().dim(own);
    };
    Dims outer, inner, both, joined;
    for (int d = 0; d < ndim; ++d) {
      const std::int64_t a = size_of(v, d), b = size_of(w, d);
      outer.insert(outer.end(), {a, 1});
      inner.insert(inner.end(), {1, b});
      both.insert(both.end(), {a, b});
      joined.push_back(a * b);
    }
    const Value blocks = broadcast_value(ops::reshape(v, outer), both);
    return ops::reshape(ops::multiply(blocks, broadcast_value(ops::reshape(w, inner), both)), joined);
  });
}

Tensor dot(Operand lhs, Operand rhs, const DotDims& dims) {
  return recorded("dot", lhs, rhs, [&](Value x, Value y) {
    return ops::dot(x, y, {dims.lhs_batch, dims.lhs_contracting, dims.rhs_batch, dims.rhs_contracting});
  });
}

namespace {

// [.., m, k] x [.., k, n] with equal batch dims.
Value matmul_of_equal_batches(Value x, Value y, std::optional<DType> result = {}) {
  const int batch = y.type().ndim() - 2;
  DotAttributes dims;
  for (int d = 0; d < batch; ++d) {
    dims.lhs_batch_dims.push_back(d);
    dims.rhs_batch_dims.push_back(d);
  }
  dims.lhs_contracting_dims = {x.type().ndim() - 1};
  dims.rhs_contracting_dims = {batch};
  return ops::dot(x, y, std::move(dims), result);
}

// Batch dim i from the end has the label i; a dim of size 1 that broadcasts is removed.
enum MatrixLabel { kRow = -1, kInner = -2, kColumn = -3 };
Labelled with_labels(Value v, const Dims& batch, const Labels& matrix) {
  Labelled out{v, {}};
  Dims sizes;
  const int own = v.type().ndim() - isize(matrix);
  for (int d = 0; d < own; ++d) {
    const int from_end = own - d;
    if (v.type().dim(d) == 1 && at(batch, isize(batch) - from_end) != 1) continue;
    out.labels.push_back(from_end);
    sizes.push_back(v.type().dim(d));
  }
  for (int i = 0; i < isize(matrix); ++i) {
    out.labels.push_back(at(matrix, i));
    sizes.push_back(v.type().dim(own + i));
  }
  if (sizes != v.type().dims()) out.value = ops::reshape(v, std::move(sizes));
  return out;
}

Value matmul_that_broadcasts(Value x, Value y) {
  const auto batch_of = [](Value v) {
    const int count = std::max(0, v.type().ndim() - 2);
    return Dims(v.type().dims().begin(), v.type().dims().begin() + count);
  };
  const Dims batch = broadcast_dims(batch_of(x), batch_of(y));
  Labels kept;
  for (int i = isize(batch); i > 0; --i) kept.push_back(i);
  if (x.type().ndim() > 1) kept.push_back(kRow);
  if (y.type().ndim() > 1) kept.push_back(kColumn);
  const Labelled lhs = with_labels(x, batch, x.type().ndim() > 1 ? Labels{kRow, kInner} : Labels{kInner});
  const Labelled rhs = with_labels(y, batch, y.type().ndim() > 1 ? Labels{kInner, kColumn} : Labels{kInner});
  return in_order(contract(lhs, rhs, kept), kept);
}

}  // namespace

Tensor matmul(Operand lhs, Operand rhs) {
  return recorded("matmul", lhs, rhs, [&](Value x, Value y) {
    require(x.type().ndim() >= 1 && y.type().ndim() >= 1, "needs at least one dim on each side, got {} and {}",
            x.type(), y.type());
    const int m = x.type().ndim();
    const int n = y.type().ndim();
    if (m >= 2 && n == 2) return ops::matmul(x, y);
    const auto& a = x.type().dims();
    const auto& b = y.type().dims();
    if (m >= 2 && m == n && std::equal(a.begin(), a.end() - 2, b.begin())) return matmul_of_equal_batches(x, y);
    const std::int64_t inner = x.type().dim(m - 1);
    require(inner == y.type().dim(std::max(0, n - 2)), "the last dim of {} is {}, but dim {} of {} is {}", x.type(),
            inner, std::max(0, n - 2), y.type(), y.type().dim(std::max(0, n - 2)));
    require(x.type().dtype() == y.type().dtype(), "operands have element types {} and {}; convert one with .to()",
            dtype_name(x.type().dtype()), dtype_name(y.type().dtype()));
    return matmul_that_broadcasts(x, y);
  });
}

// ---- with PyTorch's names -----------------------------------------------------------------------------------------------

Tensor outer(Operand x, Operand y) {
  return recorded("outer", x, y, [](Value v, Value w) {
    require(v.type().ndim() == 1 && w.type().ndim() == 1, "needs two vectors, got {} and {}", v.type(), w.type());
    std::vector<Value> vectors{v, w};
    widen_in_autocast(vectors);
    const Dims dims{v.type().dim(0), w.type().dim(0)};
    return ops::multiply(ops::broadcast(vectors[0], dims, {0}), ops::broadcast(vectors[1], dims, {1}));
  });
}

namespace {

Value batched_product(Value x, Value y, std::optional<DType> result) {
  const bool fits = x.type().ndim() == 3 && y.type().ndim() == 3 && x.type().dim(0) == y.type().dim(0) &&
                    x.type().dim(2) == y.type().dim(1);
  require(fits, "needs [b, m, k] and [b, k, n], got {} and {}", x.type(), y.type());
  return matmul_of_equal_batches(x, y, result);
}

Value plain_product(Value x, Value y, std::optional<DType> result) {
  const bool fits = x.type().ndim() == 2 && y.type().ndim() == 2 && x.type().dim(1) == y.type().dim(0);
  require(fits, "needs [m, k] and [k, n], got {} and {}", x.type(), y.type());
  return ops::dot(x, y, {{}, {1}, {}, {0}}, result);
}

Value scaled_by(Value value, double factor) {
  check_number(factor, value.type());
  return factor == 1 ? value : ops::multiply(value, constant_like(value, factor));
}

// beta * added + alpha * product(x, y), rounded once to the type of the operands.
Tensor added_to_product(std::string_view name, const Operand& added, const Operand& x, const Operand& y,
                        const AddProductOptions& options, Value (*product)(Value, Value, std::optional<DType>)) {
  return recorded(name, x, y, [&](Value v, Value w) {
    const DType dtype = v.type().dtype();
    require(w.type().dtype() == dtype, "operands have element types {} and {}; convert one with .to()",
            dtype_name(dtype), dtype_name(w.type().dtype()));
    const bool is_16_bit = dtype == DType::kBF16 || dtype == DType::kF16;
    const Value out = scaled_by(product(v, w, is_16_bit ? std::optional(DType::kF32) : std::nullopt), options.alpha);
    if (options.beta == 0) return narrowed(out, dtype);
    const Value a = autocast_value(name, added);
    require(a.type().dtype() == dtype, "the added tensor is {}, but the product is {}; convert one with .to()",
            a.type(), out.type().with_dtype(dtype));
    return narrowed(ops::add(scaled_by(widened(broadcast_value(a, out.type().dims())), options.beta), out), dtype);
  });
}

}  // namespace

Tensor bmm(Operand x, Operand y) {
  return recorded("bmm", x, y, [](Value v, Value w) { return batched_product(v, w, {}); });
}
Tensor addmm(Operand added, Operand x, Operand y, AddProductOptions options) {
  return added_to_product("addmm", added, x, y, options, plain_product);
}
Tensor baddbmm(Operand added, Operand x, Operand y, AddProductOptions options) {
  return added_to_product("baddbmm", added, x, y, options, batched_product);
}

}  // namespace tessera
