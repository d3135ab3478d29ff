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

/// The best of several short runs (10 ms together) on the calling thread. For bf16 the dot-product instructions where there are any,
/// else f32's, in which bf16 is then computed.
FmaPeak measure_fma_peak(DType dtype);

}  // namespace tessera::bench
