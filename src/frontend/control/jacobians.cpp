// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/control/jacobians.h"

#include "tracing/error_context.h"

namespace tessera::detail {

Tensor unit_vectors(const Tensor& x, const std::source_location& where) {
  in_context("jacobian", {&x}, where, [&] {
    require(is_float(x.dtype()), "needs functions of floats with floats as results, got {}", x.type());
  });
  Dims dims = x.dims();
  dims.insert(dims.begin(), x.numel());
  return eye(x.numel(), {}, x.dtype(), where).reshape(dims, where);
}

Dims derivative_dims(const Tensor& y, const Tensor& x) {
  Dims out = y.dims();
  out.insert(out.end(), x.dims().begin(), x.dims().end());
  return out;
}

}  // namespace tessera::detail
