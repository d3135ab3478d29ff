// SPDX-License-Identifier: Apache-2.0
// Chooses the kernels for the features of the processor. Compiled for any processor.
#include "kernels/simd/attention_args.h"
#include "kernels/simd/kernel_set.h"
#include "tessera/base/instruction_set.h"

namespace tessera::kernels {

const KernelSet& kernel_set() {
  [[maybe_unused]] const InstructionSet set = instruction_set();
#if defined(__x86_64__)
  if (set >= InstructionSet::kAvx512) return avx512::kernel_set();
  if (set >= InstructionSet::kAvx2) return avx2::kernel_set();
#endif
  return generic::kernel_set();
}

AttentionFunctions attention_functions(DType dtype) {
  [[maybe_unused]] const InstructionSet set = instruction_set();
#if defined(__x86_64__)
  if (dtype == DType::kBF16 && set >= InstructionSet::kAmx) return amx::attention_functions(dtype);
  if (dtype == DType::kBF16 && set >= InstructionSet::kAvx512Bf16) return avx512bf16::attention_functions(dtype);
  if (set >= InstructionSet::kAvx512) return avx512::attention_functions(dtype);
  if (set >= InstructionSet::kAvx2) return avx2::attention_functions(dtype);
#endif
  return generic::attention_functions(dtype);
}

}  // namespace tessera::kernels
