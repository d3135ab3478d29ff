// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "harness.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::fuzz::check_hlo_reader({reinterpret_cast<const char*>(data), size});
  return 0;
}
