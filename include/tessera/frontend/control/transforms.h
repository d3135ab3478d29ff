// SPDX-License-Identifier: Apache-2.0
// Functions that turn a function of trees of tensors (tree.h) into another one, as in JAX.
//
//   auto loss = [&](const Params& p, const Tensor& x) { return mean(square(model(p, x))); };
//   auto [value, gradient] = value_and_grad(loss)(params, x);        gradient is a Params
//   auto [y, pullback] = vjp(f, x);          Tensor dx = pullback(dy);
//   auto [y, dy] = jvp(f, std::tuple(x), std::tuple(dx));
//
// Everything is traced; nothing runs before the step ends. Gradients are ordinary tensors, so they can be
// differentiated again.
#pragma once

#include <functional>
#include <optional>
#include <source_location>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/frontend/control/const_callable.h"
#include "tessera/frontend/tensor/tree.h"

namespace tessera {
namespace detail {

using Tensors = std::vector<Tensor>;
/// Returns copies of the tensors as separate values, so that a gradient with respect to a copy does not include other
/// uses of the tensor.
Tensors fresh_copies(const Tensors& tensors, const std::source_location& where);
/// The gradients with respect to `wrt` when d_outputs flow to outputs; zeros where none flows.
Tensors pull_back(const Tensors& outputs, const Tensors& d_outputs, const Tensors& wrt,
                  const std::source_location& where);
/// The tangents of the outputs.
Tensors push_forward(const Tensors& outputs, const Tensors& primals, const Tensors& tangents,
                     const std::source_location& where);
/// A 1 of the type of the loss. Error unless the loss is a scalar of a float type.
Tensor one_like(const Tensor& loss, const std::source_location& where);
/// Error unless `given` has the tensors of `expected`, with equal types.
void check_cotangents(std::string_view function, std::string_view what, const Tensors& expected, const Tensors& given);
/// The same values, through which no gradient flows.
Tensors without_gradient(const Tensors& tensors, const std::source_location& where);

/// `call` returns outputs and then residuals. `backward` maps residuals and output gradients to argument gradients.
struct CustomCall {
  Tensors outputs;
  std::size_t residual_count = 0;
};
/// Calls `call`, whose gradient `backward` computes. Returns the outputs without the residuals.
Tensors call_with_gradient(const Tensors& arguments, const std::function<CustomCall(const Tensors&)>& call,
                           const std::function<Tensors(const Tensors& residuals, const Tensors& d_outputs)>& backward,
                           const std::source_location& where);

/// A tree of arguments with other tensors.
template <class T>
struct FreshTree {
  T tree;
  Tensors leaves;
  FreshTree(const T& given, const std::source_location& where)
      : tree(given), leaves(fresh_copies(tree_leaves(given), where)) {
    tree = tree_with_leaves(given, leaves);
  }
};

}  // namespace detail

/// The gradients of a scalar with respect to tensors that it was computed from: variables or traced tensors. Does not
/// change grad(). Zeros for a tensor that does not influence the output. (torch.autograd.grad)
std::vector<Tensor> gradients(const Tensor& output, const std::vector<Tensor>& inputs,
                              std::source_location where = std::source_location::current());

/// Returns a function that returns {f(x, others...), gradient with respect to x}. `f` returns a scalar of a float type;
/// x is any tree, and the gradient has its structure. Gradients of integer tensors are zeros. (jax.value_and_grad)
template <class F>
auto value_and_grad(F f, std::source_location where = std::source_location::current()) {
  return
      [f = detail::ConstCallable(std::move(f)), where]<class X, class... Others>(const X& x, const Others&... others) {
        const detail::FreshTree<X> fresh(x, where);
        const Tensor value = f(fresh.tree, others...);
        const auto d = detail::pull_back({value}, {detail::one_like(value, where)}, fresh.leaves, where);
        return std::pair<Tensor, X>(value, tree_with_leaves(x, d));
      };
}

/// Returns a function that returns the gradient of f with respect to its first argument. (jax.grad)
template <class F>
auto grad(F f, std::source_location where = std::source_location::current()) {
  return
      [both = value_and_grad(std::move(f), where)]<class... Args>(const Args&... args) { return both(args...).second; };
}

/// Returns {f(primals...), pullback}: pullback(d_result) is the gradient with respect to the primals, a tuple if there
/// are several. (jax.vjp)
template <class F, class... Primals>
auto vjp(F&& f, const Primals&... primals) {
  const auto where = std::source_location::current();
  const std::tuple<Primals...> given(primals...);
  const detail::FreshTree<std::tuple<Primals...>> fresh(given, where);
  auto result = std::apply(f, fresh.tree);
  using Result = decltype(result);
  auto pullback = [given, where, leaves = fresh.leaves, outputs = tree_leaves(result)](const Result& d_result) {
    const auto d_outputs = tree_leaves(d_result);
    detail::check_cotangents("vjp", "gradient of the result", outputs, d_outputs);
    auto out = tree_with_leaves(given, detail::pull_back(outputs, d_outputs, leaves, where));
    if constexpr (sizeof...(Primals) == 1)
      return std::get<0>(std::move(out));
    else
      return out;
  };
  return std::pair<Result, decltype(pullback)>(std::move(result), std::move(pullback));
}

/// Returns {f(primals...), its tangent}: the derivative of f in the direction of the tangents. Computed by two reverse
/// passes: the pullback is linear in the gradient of the result, and its own gradient is the tangent. Every op of f
/// needs a gradient that is differentiable itself. (jax.jvp)
template <class F, class... Primals>
auto jvp(F&& f, const std::tuple<Primals...>& primals, const std::type_identity_t<std::tuple<Primals...>>& tangents,
         std::source_location where = std::source_location::current()) {
  const detail::FreshTree<std::tuple<Primals...>> fresh(primals, where);
  auto result = std::apply(f, fresh.tree);
  const auto given = tree_leaves(tangents);
  detail::check_cotangents("jvp", "tangent of the arguments", fresh.leaves, given);
  auto tangent = tree_with_leaves(result, detail::push_forward(tree_leaves(result), fresh.leaves, given, where));
  return std::pair<decltype(result), decltype(result)>(std::move(result), std::move(tangent));
}

/// The same values; no gradient flows through them. (jax.lax.stop_gradient, torch.Tensor.detach)
template <class T>
T stop_gradient(const T& tree, std::source_location where = std::source_location::current()) {
  return tree_with_leaves(tree, detail::without_gradient(tree_leaves(tree), where));
}

/// Returns a function with its own gradient. `f(args...)` returns a pair {result, residuals}; the new function returns
/// the result. `backward(residuals, d_result)` returns the gradient of the argument, or a tuple with one tree for each
/// of several arguments. No gradient flows to tensors that `f` captures. (jax.custom_vjp, torch.autograd.Function)
template <class F, class B>
auto custom_gradient(F f, B backward, std::source_location where = std::source_location::current()) {
  return [f = detail::ConstCallable(std::move(f)), backward = detail::ConstCallable(std::move(backward)),
          where]<class... Args>(const Args&... args) {
    using Both = std::decay_t<std::invoke_result_t<F&, const Args&...>>;
    using Result = std::decay_t<std::tuple_element_t<0, Both>>;
    using Residuals = std::decay_t<std::tuple_element_t<1, Both>>;
    const std::tuple<Args...> given(args...);
    std::optional<Result> result;
    std::optional<Residuals> residuals;
    const auto call = [&](const detail::Tensors& leaves) {
      auto [value, kept] = std::apply(f, tree_with_leaves(given, leaves));
      detail::CustomCall out{tree_leaves(value), 0};
      const auto more = tree_leaves(kept);
      out.residual_count = more.size();
      out.outputs.insert(out.outputs.end(), more.begin(), more.end());
      result.emplace(std::move(value));
      residuals.emplace(std::move(kept));
      return out;
    };
    const auto gradient = [&](const detail::Tensors& kept, const detail::Tensors& d_outputs) {
      const auto d = backward(tree_with_leaves(*residuals, kept), tree_with_leaves(*result, d_outputs));
      return tree_leaves(d);
    };
    const auto outputs = detail::call_with_gradient(tree_leaves(given), call, gradient, where);
    return tree_with_leaves(*std::move(result), outputs);
  };
}

}  // namespace tessera
