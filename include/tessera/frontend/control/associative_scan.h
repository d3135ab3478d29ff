// SPDX-License-Identifier: Apache-2.0
// Scans with an associative function: sums, products of matrices, linear recurrences.
//
//   Tensor sums = associative_scan([](const Tensor& a, const Tensor& b) { return a + b; }, x);
//   // h[t] = a[t] h[t-1] + b[t]
//   auto [decay, h] = associative_scan([](const auto& l, const auto& r) {
//     return std::pair(l.first * r.first, l.second * r.first + r.second);
//   }, std::pair(a, b));
#pragma once

#include <functional>
#include <source_location>
#include <type_traits>
#include <vector>

#include "tessera/frontend/control/control_flow.h"
#include "tessera/frontend/tensor/tree.h"

namespace tessera {

struct AssociativeScanOptions {
  /// The dim of every tensor along which elements are combined; negative: from the end of the first tensor.
  int dim = 0;
  /// Combines from the last element to the first.
  bool reverse = false;
};

namespace detail {

using Combine = std::function<Tensors(const Tensors& a, const Tensors& b)>;
/// associative_scan() for lists of tensors.
Tensors associative_scan_tensors(const Combine& combine, const Tensors& xs, const AssociativeScanOptions& options,
                                 const std::source_location& where);

}  // namespace detail

/// Returns a tree like `xs` whose element i along the dim is f(… f(f(x[0], x[1]), x[2]) …, x[i]); with `reverse`
/// f(… f(x[n-1], x[n-2]) …, x[i]). `xs` is a tree of tensors with equal sizes of the dim. `f` must be associative. It
/// takes and returns trees like `xs` that hold several elements each: the dim has another size in every call, and f
/// combines elements with equal positions. `f` is called at most 2 log2(n) times and traced each time, so the depth of
/// the program is logarithmic in the size n of the dim. Differentiable. Other dims may be sharded without
/// communication. (jax.lax.associative_scan)
template <class F, class Xs>
  requires std::is_invocable_r_v<Xs, F&, const Xs&, const Xs&>
Xs associative_scan(F&& f, const Xs& xs, const AssociativeScanOptions& options = {},
                    std::source_location where = std::source_location::current()) {
  const auto combine = [&](const detail::Tensors& a, const detail::Tensors& b) {
    const Xs result = f(tree_with_leaves(xs, a), tree_with_leaves(xs, b));
    detail::check_same_structure("associative_scan", "the function returns another tree than its arguments",
                                 tree_structure(xs), tree_structure(result));
    return tree_leaves(result);
  };
  return tree_with_leaves(xs, detail::associative_scan_tensors(combine, tree_leaves(xs), options, where));
}

}  // namespace tessera
