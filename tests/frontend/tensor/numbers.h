// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/frontend/tensor/creation.h"

namespace tessera::testing {

using Numbers = std::vector<double>;

/// The elements of a tensor of any type.
inline Numbers numbers(const Tensor& x) {
  const Literal value = x.to_host();
  Numbers out;
  for (std::int64_t i = 0; i < x.numel(); ++i)
    out.push_back(is_float(x.dtype()) ? element_as_double(value, i) : static_cast<double>(element_as_int(value, i)));
  return out;
}

/// 0, 1, 2, … as f64.
inline Tensor counted(const Shape& shape) { return arange(shape.numel(), kF64).reshape(shape); }

/// The first line of the error that f throws.
inline std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    const std::string text = error.what();
    return text.substr(0, text.find('\n'));
  }
  return "no error";
}

}  // namespace tessera::testing
