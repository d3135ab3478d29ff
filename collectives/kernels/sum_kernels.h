// SPDX-License-Identifier: Apache-2.0
// Sums of several buffers, compiled once per instruction set from the same source. The source includes no headers with
// inline functions that the linker could merge across instruction sets. Summands are added in the given order, so every
// set gives the same bits.
#pragma once

namespace tessera::collectives {

/// out[i] = ((s0[i] + s1[i]) + s2[i]) …; `out` may be one of the sources.
using SumFunction = void (*)(const void* const* sources, long source_count, void* out, long count);

/// The sums of one instruction set, by element type.
struct SumKernels {
  SumFunction f32;
  SumFunction f64;
  SumFunction bf16;  // accumulates in f32, rounds once
};

namespace generic {
const SumKernels& sum_kernels();
}
namespace avx2 {
const SumKernels& sum_kernels();
}
namespace avx512 {
const SumKernels& sum_kernels();
}

/// The best set that this processor supports, or the one that TESSERA_ISA names.
const SumKernels& sum_kernels();

}  // namespace tessera::collectives
