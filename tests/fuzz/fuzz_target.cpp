// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry point for one reader. Compiled once for each reader, with its name in TESSERA_FUZZ_READER.
#include <cstddef>
#include <cstdint>

#include "harness.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto check = tessera::fuzz::reader(TESSERA_FUZZ_READER).check;
  check({reinterpret_cast<const char*>(data), size});
  return 0;
}
