// SPDX-License-Identifier: Apache-2.0
// Functions that run before and after the calls of a module.
//
//   HookHandle handle = block.register_forward_hook(
//       [&](nn::Module&, const std::vector<Tensor>&, std::vector<Tensor>& out) {
//         out[0] = mark_sharding_with_gradients(out[0], mesh, {"data", {}, {}});
//       });
//   …
//   handle.remove();
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/frontend/tensor/tensor.h"

namespace tessera::nn {

class Module;

/// `inputs` are the arguments of type Tensor, in their order.
using ForwardPreHook = std::function<void(Module& module, std::vector<Tensor>& inputs)>;
/// `outputs` are the tensors of the result: a Tensor, a vector of tensors, or the tensors of a pair or tuple. Results
/// of other types are not visible to hooks.
using ForwardHook =
    std::function<void(Module& module, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs)>;

/// Refers to one registered hook.
class HookHandle {
 public:
  HookHandle() = default;
  explicit HookHandle(std::function<void()> remove) : remove_(std::move(remove)) {}
  /// Removes the hook from its module. Does nothing if it is removed already or the module does not exist any more.
  void remove() {
    if (remove_) remove_();
    remove_ = nullptr;
  }

 private:
  std::function<void()> remove_;
};

/// Hooks in the order of their registration.
template <class Hook>
class HookList {
 public:
  HookHandle add(Hook hook) {
    require(static_cast<bool>(hook), "a hook must be a function, got none");
    if (!items_) items_ = std::make_shared<Items>();
    const auto item = std::make_shared<const Hook>(std::move(hook));
    items_->push_back(item);
    return HookHandle([items = std::weak_ptr(items_), item = std::weak_ptr(item)] {
      const auto list = items.lock();
      const auto hook = item.lock();
      if (list && hook) std::erase(*list, hook);
    });
  }
  [[nodiscard]] bool empty() const { return !items_ || items_->empty(); }
  /// Calls all hooks. A hook may remove itself.
  template <class... Args>
  void operator()(Args&&... args) const {
    if (empty()) return;
    const Items now = *items_;
    for (const auto& hook : now) (*hook)(args...);
  }

 private:
  using Items = std::vector<std::shared_ptr<const Hook>>;
  std::shared_ptr<Items> items_;
};

struct ForwardHooks {
  HookList<ForwardPreHook> before;
  HookList<ForwardHook> after;
  [[nodiscard]] bool empty() const { return before.empty() && after.empty(); }
};

namespace detail {

template <class T>
inline constexpr bool kIsTensor = std::is_same_v<std::remove_cvref_t<T>, Tensor>;
template <class T>
inline constexpr bool kIsTuple = false;
template <class... Ts>
inline constexpr bool kIsTuple<std::tuple<Ts...>> = true;
template <class A, class B>
inline constexpr bool kIsTuple<std::pair<A, B>> = true;

template <class Result, class Visit>
void for_each_tensor(Result& result, const Visit& visit) {
  if constexpr (kIsTensor<Result>) {
    visit(result);
  } else if constexpr (std::is_same_v<Result, std::vector<Tensor>>) {
    for (Tensor& tensor : result) visit(tensor);
  } else if constexpr (kIsTuple<Result>) {
    std::apply([&](auto&... part) { (for_each_tensor(part, visit), ...); }, result);
  }
}

/// Returns the argument, or the tensor of `inputs` that replaces it.
template <class Arg>
decltype(auto) argument_or(Arg&& arg, std::vector<Tensor>& inputs, std::size_t& next) {
  if constexpr (kIsTensor<Arg>)
    return static_cast<Tensor&>(inputs[next++]);
  else
    return std::forward<Arg>(arg);
}

}  // namespace detail

/// Calls `forward` with the arguments, and the hooks before and after it. Error if a hook changes the number of
/// tensors.
template <class Forward, class... Args>
auto call_with_hooks(Module& module, const ForwardHooks& hooks, const Forward& forward, Args&&... args) {
  std::vector<Tensor> inputs;
  [[maybe_unused]] const auto take = [&inputs](const auto& arg) {
    if constexpr (detail::kIsTensor<decltype(arg)>) inputs.push_back(arg);
  };
  (take(args), ...);
  const std::size_t count = inputs.size();
  hooks.before(module, inputs);
  require(inputs.size() == count, "a forward pre-hook changed the number of tensors from {} to {}", count,
          inputs.size());
  std::size_t next = 0;
  // Braces evaluate the arguments from left to right.
  std::tuple<decltype(detail::argument_or(std::forward<Args>(args), inputs, next))...> given{
      detail::argument_or(std::forward<Args>(args), inputs, next)...};
  const auto run = [&] {
    return std::apply([&](auto&&... each) { return forward(std::forward<decltype(each)>(each)...); }, std::move(given));
  };
  if constexpr (std::is_void_v<decltype(run())>) {
    run();
    std::vector<Tensor> outputs;
    hooks.after(module, inputs, outputs);
  } else {
    auto result = run();
    std::vector<Tensor> outputs;
    detail::for_each_tensor(result, [&](const Tensor& tensor) { outputs.push_back(tensor); });
    const std::size_t results = outputs.size();
    hooks.after(module, inputs, outputs);
    require(outputs.size() == results, "a forward hook changed the number of tensors from {} to {}", results,
            outputs.size());
    std::size_t i = 0;
    detail::for_each_tensor(result, [&](Tensor& tensor) { tensor = outputs[i++]; });
    return result;
  }
}

}  // namespace tessera::nn
