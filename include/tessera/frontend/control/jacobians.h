// SPDX-License-Identifier: Apache-2.0
// Matrices of derivatives of a function from a tensor to a tensor, by vmap over vjp or jvp.
//
//   Tensor j = jacrev(f)(x);        f: [n] -> [m]; j is [m, n]
//   Tensor h = hessian(loss)(x);    loss: [n] -> []; h is [n, n]
#pragma once

#include <source_location>
#include <tuple>
#include <utility>

#include "tessera/frontend/control/transforms.h"
#include "tessera/frontend/control/vmap.h"
#include "tessera/frontend/tensor/creation.h"

namespace tessera {
namespace detail {

/// The unit vectors of the shape of x: [numel, shape of x].
Tensor unit_vectors(const Tensor& x, const std::source_location& where);
/// The sizes of both tensors: those of the derivatives of y with respect to x.
Dims derivative_dims(const Tensor& y, const Tensor& x);

}  // namespace detail

/// Returns a function that returns the derivatives of f(x, others...) with respect to x, both tensors of floats. The
/// result has the dims of f(x), then those of x. Computed with one pullback for each element of f(x), all in one call of
/// vmap: best if f(x) has fewer elements than x. (jax.jacrev, torch.func.jacrev)
template <class F>
auto jacrev(F f, std::source_location where = std::source_location::current()) {
  return [f = detail::ConstCallable(std::move(f)), where]<class... Others>(const Tensor& x, const Others&... others) {
    const auto [y, pullback] = vjp([&](const Tensor& v) -> Tensor { return f(v, others...); }, x);
    const Tensor rows = vmap(pullback, {}, where)(detail::unit_vectors(y, where));
    return rows.reshape(detail::derivative_dims(y, x), where);
  };
}

/// The same result, computed with one jvp for each element of x: best if x has fewer elements than f(x).
/// (jax.jacfwd, torch.func.jacfwd)
template <class F>
auto jacfwd(F f, std::source_location where = std::source_location::current()) {
  return [f = detail::ConstCallable(std::move(f)), where]<class... Others>(const Tensor& x, const Others&... others) {
    const auto of_x = [&](const Tensor& v) -> Tensor { return f(v, others...); };
    const auto along = [&](const Tensor& tangent) { return jvp(of_x, std::tuple(x), std::tuple(tangent), where); };
    const auto [y, columns] = vmap(along, {.out_dims = {std::nullopt, -1}}, where)(detail::unit_vectors(x, where));
    return columns.reshape(detail::derivative_dims(y, x), where);
  };
}

/// Returns a function that returns the second derivatives of the scalar f(x, others...) with respect to the tensor x:
/// the dims of x twice. (jax.hessian, torch.func.hessian)
template <class F>
auto hessian(F f, std::source_location where = std::source_location::current()) {
  return jacfwd(grad(std::move(f), where), where);
}

}  // namespace tessera
