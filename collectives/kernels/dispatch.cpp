// SPDX-License-Identifier: Apache-2.0
// Selects the kernels for the features of the processor. This file is compiled for any processor.
#include "kernels/instruction_set.h"

#include <algorithm>

#include "kernels/sum_kernels.h"
#include "tessera/base/options.h"

namespace tessera::collectives {

// Selects like the runtime's kernels (src/runtime/kernels/dispatch.cpp).
std::size_t instruction_set() {
  const std::string& wanted = options().text("TESSERA_ISA");
  if (!wanted.empty())
    return static_cast<std::size_t>(std::find(kInstructionSets.begin(), kInstructionSets.end(), wanted) -
                                    kInstructionSets.begin());
#if defined(__x86_64__)
  const bool has_avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  const bool has_avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                          __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  if (has_avx2) return has_avx512 ? 2 : 1;
#endif
  return 0;
}

const SumKernels& sum_kernels() {
  [[maybe_unused]] const std::string& wanted = options().text("TESSERA_ISA");  // the runtime rejects unknown names
  [[maybe_unused]] const auto may_be = [&](const char* name) { return wanted.empty() || wanted == name; };
#if defined(__x86_64__)
  if (may_be("avx512") && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0)
    return avx512::sum_kernels();
  if (may_be("avx2") && __builtin_cpu_supports("avx2") != 0) return avx2::sum_kernels();
#endif
  return generic::sum_kernels();
}

}  // namespace tessera::collectives
