// SPDX-License-Identifier: Apache-2.0
// Loops of fused multiply-adds on registers, one for each kind of instruction that a processor may support.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/tensor/dtype.h"

namespace tessera {

struct FmaLoop {
  const char* name;
  DType dtype;
  bool (*runs_here)();
  double (*run)(double factor, std::int64_t rounds);
  int multiply_adds;    // in one instruction
  std::int64_t rounds;  // in one run, which takes some hundredths of a millisecond

  /// Returns the floating-point operations of a run.
  [[nodiscard]] double flops() const;
};

std::span<const FmaLoop> fma_loops();

}  // namespace tessera
