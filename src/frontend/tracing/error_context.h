// SPDX-License-Identifier: Apache-2.0
// The context that the checks of the front end add below an error message, in the form that the builder uses for ops:
//
//   slice: [2, 9) is outside dim 0 of f32[6,4]
//     #0   %x: f32[6,4] {data,-}    train.cpp:38
//     at   train.cpp:41, rank 3 of 8
#pragma once

#include <source_location>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

/// Returns name and type, or only the type.
std::string what_is(const Tensor& tensor);

/// Adds the name of the operation, its tensors and its location to an error, unless the error already has them.
void add_context(Error& error, std::string_view name, const std::vector<const Tensor*>& tensors,
                 const std::source_location& where);

/// Calls f() and adds the context to its errors.
template <class F>
decltype(auto) in_context(std::string_view name, std::initializer_list<const Tensor*> tensors,
                          const std::source_location& where, F&& f) {
  try {
    return f();
  } catch (InternalError&) {
    throw;
  } catch (Error& error) {
    add_context(error, name, tensors, where);
    throw;
  }
}

}  // namespace tessera
