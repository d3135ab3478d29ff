// SPDX-License-Identifier: Apache-2.0
// Selects the kernels for the features of the processor. This file is compiled for any processor.
#include "kernels/sum_kernels.h"
#include "tessera/base/instruction_set.h"

namespace tessera::collectives {

const SumKernels& sum_kernels() {
#if defined(__x86_64__)
  // The runtime rejects unknown names.
  const InstructionSet set = find_instruction_set().value_or(InstructionSet::kGeneric);
  if (set >= InstructionSet::kAvx512) return avx512::sum_kernels();
  if (set >= InstructionSet::kAvx2) return avx2::sum_kernels();
#endif
  return generic::sum_kernels();
}

}  // namespace tessera::collectives
