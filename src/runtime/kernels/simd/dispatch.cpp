// SPDX-License-Identifier: Apache-2.0
// Chooses the kernel set for the features of the processor. Compiled for any processor.
#include "kernels/simd/kernel_set.h"
#include "tessera/base/error.h"
#include "tessera/base/options.h"

namespace tessera::kernels {
namespace {

struct Choice {
  const char* name;
  bool (*runs_here)();
  const KernelSet& (*set)();
};

constexpr Choice kChoices[] = {
#if defined(__x86_64__)
    {"avx512",
     [] {
       return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
              __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
              __builtin_cpu_supports("fma") != 0;
     },
     avx512::kernel_set},
    {"avx2", [] { return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0; },
     avx2::kernel_set},
#endif
    {"generic", [] { return true; }, generic::kernel_set},
};

}  // namespace

const KernelSet& kernel_set() {
  const std::string& wanted = options().text("TESSERA_ISA");
  std::vector<std::string> known;
  for (const Choice& choice : kChoices) {
    known.emplace_back(choice.name);
    if (!wanted.empty() && wanted != choice.name) continue;
    if (choice.runs_here()) return choice.set();
    require(wanted.empty(), "TESSERA_ISA={}: this processor does not support it", wanted);
  }
  fail("TESSERA_ISA={}: unknown instruction set{}", wanted, suggest_name(wanted, known));
}

}  // namespace tessera::kernels
