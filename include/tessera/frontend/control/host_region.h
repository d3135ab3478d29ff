// SPDX-License-Identifier: Apache-2.0
// Code in the middle of a model that must run on the host. It is a graph break: every rank first computes and reads the
// values that the code needs.
//
//   Tensor words = host_region("dictionary", [&](const Tensor& ids) {
//     std::vector<std::int32_t> found = look_up(ids.to_vector<std::int32_t>());
//     return Tensor::from<std::int32_t>({n}, found);
//   }, ids);
#pragma once

#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "tessera/frontend/control/transforms.h"
#include "tessera/frontend/tensor/tree.h"

namespace tessera {
namespace detail {

/// Reads the inputs for the host and counts the region.
std::vector<Tensor> host_inputs(const std::string& name, const std::vector<Tensor>& inputs,
                                const std::source_location& where);
/// The results as tensors whose gradient with respect to the inputs is an error.
std::vector<Tensor> host_results(const std::string& name, const std::vector<Tensor>& results,
                                 const std::vector<Tensor>& inputs, const std::source_location& where);

}  // namespace detail

/// Calls `f` on the host with the complete values of a tree of tensors. Collective. `f` reads its tensors without
/// communication and returns a tree of tensors made from host data (Tensor::from), equal on every rank. Each call is
/// counted as `fallback::NAME` (executed_fallback_ops()). backward() through the region is an error; use the
/// overload with a backward function.
template <class F, class Inputs>
auto host_region(const std::string& name, F&& f, const Inputs& inputs,
                 std::source_location where = std::source_location::current()) {
  const auto leaves = tree_leaves(inputs);
  auto result = f(tree_with_leaves(inputs, detail::host_inputs(name, leaves, where)));
  return tree_with_leaves(result, detail::host_results(name, tree_leaves(result), leaves, where));
}

/// The same with a gradient: `backward(inputs, result, d_result)` is traced, and returns the gradient of the inputs.
template <class F, class Inputs, class B>
  requires(!std::convertible_to<B, std::source_location>)
auto host_region(const std::string& name, F&& f, const Inputs& inputs, B&& backward,
                 std::source_location where = std::source_location::current()) {
  const auto leaves = tree_leaves(inputs);
  auto result = f(tree_with_leaves(inputs, detail::host_inputs(name, leaves, where)));
  using Result = decltype(result);
  const auto keep = [](const Inputs& x, const Result& y) { return std::pair(y, std::pair(x, y)); };
  const auto gradient = [&](const std::pair<Inputs, Result>& kept, const Result& d) {
    const auto none = tree_with_leaves(kept.second, stop_gradient(tree_leaves(kept.second)));
    return std::pair<Inputs, Result>(backward(kept.first, kept.second, d), none);
  };
  return custom_gradient(keep, gradient, where)(inputs, result);
}

}  // namespace tessera
