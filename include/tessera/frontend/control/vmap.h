// SPDX-License-Identifier: Apache-2.0
// Functions for one example, applied to all examples at once.
//
//   auto scores = vmap([&](const Tensor& x) { return matmul(w, x); })(xs);              xs [n, d] -> [n, classes]
//   auto each = vmap(grad(loss), {.in_dims = {std::nullopt, 0}})(params, xs);            a gradient for each example
//   auto hessian = vmap([&](const Tensor& v) { return jvp(grad(f), std::tuple(x), std::tuple(v)).second; })(eye);
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <source_location>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/frontend/control/const_callable.h"
#include "tessera/frontend/control/transforms.h"
#include "tessera/frontend/tensor/tree.h"

namespace tessera {

/// The dim of the examples: one for all arguments (`0`), or one for each (`{0, std::nullopt}`). It applies to all
/// tensors of the argument; negative: from the end. std::nullopt: the examples share the argument.
class ExampleDims {
 public:
  ExampleDims(int dim) : dims_{dim} {}        // NOLINT(google-explicit-constructor): options read better
  ExampleDims(std::nullopt_t) : dims_{{}} {}  // NOLINT(google-explicit-constructor)
  ExampleDims(std::initializer_list<std::optional<int>> dims) : dims_(dims), is_for_each_(true) {}

  /// The dim of argument i of `count`. Error if there are dims for another number of arguments. `what` is the option.
  [[nodiscard]] std::optional<int> of(std::size_t i, std::size_t count, std::string_view what) const;

 private:
  std::vector<std::optional<int>> dims_;
  bool is_for_each_ = false;
};

struct VmapOptions {
  /// The dims of the examples in the arguments.
  ExampleDims in_dims = 0;
  /// The dims of the examples in the result; a list has one entry for each element of a pair, tuple or array.
  /// std::nullopt: the result must be the same for all examples.
  ExampleDims out_dims = 0;
  /// The number of examples; needed only if they share all arguments.
  std::optional<std::int64_t> size{};
};

namespace detail {

using LeafDims = std::vector<std::optional<int>>;

/// Adds `dim` for each tensor of the tree.
template <class T>
void add_leaf_dims(const T& tree, std::optional<int> dim, LeafDims& out) {
  out.insert(out.end(), tree_leaves(tree).size(), dim);
}

struct VmapCall {
  LeafDims in_dims;
  std::optional<std::int64_t> size{};
  /// Returns the dims of the results. Called after the function has returned.
  std::function<LeafDims()> out_dims;
};
/// Calls `function` with one example of each tensor.
Tensors vmap_tensors(const std::function<Tensors(const Tensors&)>& function, const Tensors& arguments,
                     const VmapCall& call, const std::source_location& where);

/// Returns the dim of the examples for each tensor of a result.
template <class Result>
LeafDims result_dims(const Result& result, const ExampleDims& dims) {
  LeafDims out;
  if constexpr (TupleLike<Result>) {
    constexpr std::size_t kCount = std::tuple_size_v<Result>;
    std::size_t i = 0;
    std::apply([&](const auto&... element) { (add_leaf_dims(element, dims.of(i++, kCount, "out_dims"), out), ...); },
               result);
  } else {
    add_leaf_dims(result, dims.of(0, 1, "out_dims"), out);
  }
  return out;
}

}  // namespace detail

/// Returns a function that maps `f` over the examples: its arguments and its result have an additional dim, along which
/// each example has its own element. `f` is called once, with the tensors of one example, when the step is traced; the
/// ops then get the further dim. Ops without such a form run in a loop over the examples. Tensors that `f` captures are
/// shared. dropout() draws different numbers for each example: example i gets those of iteration i of a scan. Functions
/// of a Key draw the same numbers for all examples, unless the key depends on the example (Key::fold_in). A cond whose
/// predicate differs between examples computes both functions, and a while_loop runs until the condition is false for
/// all examples. Composes with grad, vjp, jvp, scan, compile and itself. As in the function of a loop, `f` cannot read
/// a tensor, assign a variable or call backward(). (jax.vmap, torch.func.vmap)
template <class F>
auto vmap(F f, VmapOptions options = {}, std::source_location where = std::source_location::current()) {
  return [f = detail::ConstCallable(std::move(f)), options = std::move(options),
          where]<class... Args>(const Args&... args) {
    using Result = std::decay_t<std::invoke_result_t<F&, const Args&...>>;
    const std::tuple<Args...> given(args...);
    std::optional<Result> result;
    detail::VmapCall call{{}, options.size, [&] { return detail::result_dims(*result, options.out_dims); }};
    std::size_t i = 0;
    (detail::add_leaf_dims(args, options.in_dims.of(i++, sizeof...(Args), "in_dims"), call.in_dims), ...);
    const auto one = [&](const detail::Tensors& leaves) {
      result.emplace(std::apply(f, tree_with_leaves(given, leaves)));
      return tree_leaves(*result);
    };
    const auto outputs = detail::vmap_tensors(one, tree_leaves(given), call, where);
    return tree_with_leaves(*std::move(result), outputs);
  };
}

}  // namespace tessera
