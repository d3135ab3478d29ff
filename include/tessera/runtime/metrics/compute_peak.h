// SPDX-License-Identifier: Apache-2.0
// The peak speed of the processors of a job, which is the denominator of MFU. It is measured with fused multiply-adds
// in registers, with the widest available instructions.
#pragma once

#include <string>

#include "tessera/collectives/process_group.h"
#include "tessera/tensor/dtype.h"

namespace tessera {

/// The peak speed of a job.
struct ComputePeak {
  /// The sum over all ranks. The speed of a rank is that of its threads while all threads of all ranks compute. If a
  /// machine has fewer processors than threads, the speed is multiplied by the fraction of a processor that a thread
  /// has (cpu_share). Two ranks on one core therefore have the peak of one core, and the MFU of N ranks of a node can
  /// be compared with that of one rank.
  double flops_per_second = 0;
  std::string instructions;   // of rank 0: "avx512 f32"
  bool is_disturbed = false;  // other work used the processors for more than a fifth of the time
};

/// Measures for a few hundredths of a second, on `threads` threads of each rank in parallel. Takes the median of many
/// short runs, so that interruptions of a thread have little effect. For bf16 it also tries dot products (AVX-512)
/// and tiles (AMX). Collective.
ComputePeak measure_compute_peak(ProcessGroup& world, DType dtype, int threads);

}  // namespace tessera
