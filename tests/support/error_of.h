// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

namespace tessera::testing {

/// Returns the text of the error that `action` throws, or "no error".
template <class F>
std::string error_of(F&& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace tessera::testing
