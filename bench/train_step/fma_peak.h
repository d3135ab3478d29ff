// SPDX-License-Identifier: Apache-2.0
// What one core can do at most: fused multiply-adds on registers alone, with the widest instructions of this processor. The
// denominator of MFU.
#pragma once

#include <string>

#include "tessera/tensor/dtype.h"

namespace tessera::bench {

struct FmaPeak {
  double flops_per_second = 0;
  std::string instructions;  // "avx512 f32"
};

/// The best of many short runs (hundredths of a second together) on the calling thread, that is of a processor, not of the part of one
/// that is left where ranks share it (cpu_share); of the fastest instructions there are: for bf16 also
/// dot products (AVX-512) and tiles (AMX).
FmaPeak measure_fma_peak(DType dtype);

}  // namespace tessera::bench
