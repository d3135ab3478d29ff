// SPDX-License-Identifier: Apache-2.0
// What the processors of a job can do at most: fused multiply-adds on registers alone, with the widest instructions there are. The
// denominator of MFU.
#pragma once

#include <string>

#include "tessera/collectives/process_group.h"
#include "tessera/tensor/dtype.h"

namespace tessera {

struct ComputePeak {
  /// Of all ranks together. A rank has what each of its threads reaches while all threads of all ranks compute, times the part of a
  /// processor that a thread has where a machine has fewer processors than threads (cpu_share). So two ranks on one core have the peak
  /// of one core together, and the MFU of N ranks of a node compares with that of one.
  double flops_per_second = 0;
  std::string instructions;   // of rank 0: "avx512 f32"
  bool is_disturbed = false;  // other work held the processors for more than a fifth of the time
};

/// Measures for some hundredths of a second, on `threads` threads of each rank at once; the median of many short runs, so that moments
/// when a thread does not run count little. For bf16 also dot products (AVX-512) and tiles (AMX) are tried. Collective.
ComputePeak measure_compute_peak(ProcessGroup& world, DType dtype, int threads);

}  // namespace tessera
