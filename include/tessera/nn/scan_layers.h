// SPDX-License-Identifier: Apache-2.0
// A loop over equal layers. The program contains only one layer, for any number of layers.
//
//   nn::ScanLayers<Block> h(config.n_layer, config);      in place of ModuleList<Block> and a for loop
//   x = h(x);                                             each layer: x = block(x)
//   x = h(x, mask, positions);                            each layer: x = block(x, mask, positions)
//   std::tie(x, residual) = h(x, residual, mask);         each layer: std::tie(x, residual) = block(x, residual, mask)
//
// The result of a layer replaces its first arguments, which are the carry of the loop. Every layer gets the other
// arguments unchanged. Gradients flow to all of them.
//
// The parameters of the layers are stacked: each parameter of Block is one variable [layers, …] of the model, which the
// optimizer updates as one. State dicts and files contain one entry for each layer, `h.3.attn.weight`, as those of a
// ModuleList.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/frontend/tensor/stack.h"
#include "tessera/frontend/tensor/tree.h"
#include "tessera/nn/module.h"

namespace tessera::nn {
namespace detail {

using LayerCall = std::function<std::vector<Tensor>(const std::vector<Tensor>& carry)>;

/// Makes each parameter of the layer a stack of `count` variables. Error if the layer has buffers.
void stack_layers(Module& layer, std::int64_t count);
/// Traces `call` once as the body of the loop. In it, the parameters of `layer` are those of the layer of the
/// iteration.
std::vector<Tensor> scan_layers(Module& layer, const std::vector<Tensor>& carry, bool checkpoint,
                                const LayerCall& call);
/// Error if a layer returns another structure than that of the carry: other sizes of vectors, other numbers.
void check_carry(const Module& layer, const std::string& expected, const std::string& got);

/// True if the elements of a result replace several arguments. False if the result replaces an argument of its own
/// type.
template <class Result, class First>
inline constexpr bool kReplacesSeveral = kIsTuple<Result> && !std::is_same_v<Result, First>;

/// The number of arguments that a result replaces.
template <class Result, class First>
constexpr std::size_t carried_arguments() {
  if constexpr (kReplacesSeveral<Result, First>)
    return std::tuple_size_v<Result>;
  else
    return 1;
}

/// References to the elements begin, begin + 1, … of a tuple of references.
template <std::size_t begin, class Tuple, std::size_t... I>
auto elements_from(const Tuple& tuple, std::index_sequence<I...>) {
  return std::tie(std::get<begin + I>(tuple)...);
}

/// The carry as the first arguments of a layer.
template <class First, class Result>
auto arguments_of(const Result& carry) {
  if constexpr (kReplacesSeveral<Result, First>)
    return std::apply([](const auto&... each) { return std::tie(each...); }, carry);
  else
    return std::tie(carry);
}

/// True if a layer takes the source location of its call after these arguments. Callable takes it after at most four.
template <class M, class... Args>
inline constexpr bool kTakesLocation =
    std::conjunction_v<std::bool_constant<(sizeof...(Args) <= 4)>,
                       std::is_invocable<M&, const Args&..., const std::source_location&>>;

/// Calls a layer. Its errors name `where`.
template <class M, class... Args>
auto call_at(const std::source_location& where, M& layer, const Args&... args) {
  if constexpr (kTakesLocation<M, Args...>)
    return layer(args..., where);
  else
    return layer(args...);
}

}  // namespace detail

/// Layers of the class M in a loop. All layers have the same constructor arguments. They have different initial values
/// and different dropout masks. Error if M has buffers (batch norm). FSDP treats M as one unit: each iteration gathers
/// the parameters of one layer, and the backward pass gathers them again.
template <class M>
class ScanLayers : public Callable<ScanLayers<M>> {
 public:
  template <class... Args>
  explicit ScanLayers(std::int64_t count, Args&&... args) : count_(count), layer_(std::forward<Args>(args)...) {
    this->add_module(std::string(kEachOfStack), layer_);
    detail::stack_layers(layer_, count);
  }
  /// Returns the result of the last layer. The result R of `M(args…)` is the carry: it replaces the first argument, or,
  /// if R is a pair or a tuple of n elements and the first argument has another type, the first n arguments. The carry
  /// is a tree of tensors (tree.h). Error if a layer returns a carry of another structure, shape or element type. The
  /// arguments after the carry may have any types.
  template <class First, class... More>
  auto forward(const First& first, const More&... more) {
    using Result = std::decay_t<std::invoke_result_t<M&, const First&, const More&...>>;
    constexpr std::size_t kCarried = detail::carried_arguments<Result, First>();
    constexpr std::size_t kCount = 1 + sizeof...(More);
    static_assert(kCarried <= kCount, "ScanLayers: a layer returns more values than it has arguments");
    const auto given = std::tie(first, more...);
    const auto start =
        std::make_from_tuple<Result>(detail::elements_from<0>(given, std::make_index_sequence<kCarried>()));
    const auto shared = detail::elements_from<kCarried>(given, std::make_index_sequence<kCount - kCarried>());
    const std::source_location where = detail::current_call();
    const auto one_layer = [&](const std::vector<Tensor>& leaves) {
      const Result carry = tree_with_leaves(start, leaves);
      const Result next = std::apply([&](const auto&... each) { return detail::call_at(where, layer_, each...); },
                                     std::tuple_cat(detail::arguments_of<First>(carry), shared));
      detail::check_carry(layer_, tree_structure(start), tree_structure(next));
      return tree_leaves(next);
    };
    return tree_with_leaves(start, detail::scan_layers(layer_, tree_leaves(start), checkpoint_, one_layer));
  }
  /// The layer whose parameters are the stacks.
  [[nodiscard]] M& layer() { return layer_; }
  [[nodiscard]] std::int64_t size() const { return count_; }
  /// If `on`, the backward pass computes the values of a layer again, and only the carry of the layer is kept.
  void set_checkpoint(bool on = true) { checkpoint_ = on; }
  [[nodiscard]] std::string_view class_name() const override { return "ScanLayers"; }
  [[nodiscard]] bool is_container() const override { return true; }

 private:
  std::int64_t count_;
  bool checkpoint_ = false;
  M layer_;
};

}  // namespace tessera::nn
