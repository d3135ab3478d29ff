// SPDX-License-Identifier: Apache-2.0
// Rematerialization: the backward pass computes the inner values of a function again, instead of keeping them.
//
//   Tensor y = checkpoint([&](const Tensor& x) { return block(x); })(x);
#pragma once

#include <source_location>
#include <utility>
#include <vector>

#include "tessera/frontend/control/const_callable.h"
#include "tessera/frontend/tensor/tree.h"

namespace tessera {
namespace detail {

/// Ops that are traced within this scope belong to one checkpoint region. A scope within another region has no effect,
/// because the outer region is computed again as one.
class CheckpointScope {
 public:
  explicit CheckpointScope(const std::source_location& where);
  ~CheckpointScope();
  CheckpointScope(const CheckpointScope&) = delete;
  CheckpointScope& operator=(const CheckpointScope&) = delete;
};
/// Returns copies of the results outside of the checkpoint region, so that the backward pass need not recompute them.
std::vector<Tensor> kept(const std::vector<Tensor>& results, const std::source_location& where);

}  // namespace detail

/// Returns a function with the same results as `f`, of trees of tensors. From the forward to the backward pass, memory
/// holds only its inputs and results; the backward pass computes the other values again. Random numbers are the same
/// both times. Ops with side effects run once. `f` may assign variables and use modules. Composes with all transforms:
/// `grad(checkpoint(f))`. (jax.checkpoint, torch.utils.checkpoint)
template <class F>
auto checkpoint(F f, std::source_location where = std::source_location::current()) {
  return [f = detail::ConstCallable(std::move(f)), where]<class... Args>(Args&&... args) {
    auto result = [&] {
      const detail::CheckpointScope scope(where);
      return f(std::forward<Args>(args)...);
    }();
    return tree_with_leaves(result, detail::kept(tree_leaves(result), where));
  };
}

}  // namespace tessera
