// SPDX-License-Identifier: Apache-2.0
// A function of the user within another function.
#pragma once

#include <concepts>
#include <functional>
#include <utility>

namespace tessera::detail {

/// Calls a function that may be `mutable` from a const function, so that transforms of it can be transformed again.
template <class F>
class ConstCallable {
 public:
  explicit ConstCallable(F function) : function_(std::move(function)) {}
  template <class... Args>
    requires std::invocable<F&, Args...>
  decltype(auto) operator()(Args&&... args) const {
    return std::invoke(function_, std::forward<Args>(args)...);
  }

 private:
  mutable F function_;
};

}  // namespace tessera::detail
