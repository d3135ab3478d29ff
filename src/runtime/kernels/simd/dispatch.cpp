// SPDX-License-Identifier: Apache-2.0
// Chooses the kernel set for the features of the processor. Compiled for any processor.
#include "kernels/simd/attention_args.h"
#include "kernels/simd/kernel_set.h"
#include "tessera/base/error.h"
#include "tessera/base/options.h"

namespace tessera::kernels {
namespace {

struct Choice {
  const char* name;
  bool (*runs_here)();
  const KernelSet& (*set)();
  AttentionFunctions (*attention)(DType);
};

constexpr Choice kChoices[] = {
#if defined(__x86_64__)
    {"avx512",
     [] {
       return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
              __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
              __builtin_cpu_supports("fma") != 0;
     },
     avx512::kernel_set,
     [](DType dtype) {
       const bool in_pairs = dtype == DType::kBF16 && __builtin_cpu_supports("avx512bf16") != 0;
       return in_pairs ? avx512bf16::attention_functions(dtype) : avx512::attention_functions(dtype);
     }},
    {"avx2", [] { return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0; }, avx2::kernel_set,
     avx2::attention_functions},
#endif
    {"generic", [] { return true; }, generic::kernel_set, generic::attention_functions},
};

const Choice& chosen() {
  const std::string& wanted = options().text("TESSERA_ISA");
  std::vector<std::string> known;
  for (const Choice& choice : kChoices) {
    known.emplace_back(choice.name);
    if (!wanted.empty() && wanted != choice.name) continue;
    if (choice.runs_here()) return choice;
    require(wanted.empty(), "TESSERA_ISA={}: this processor does not support it", wanted);
  }
  fail("TESSERA_ISA={}: unknown instruction set{}", wanted, suggest_name(wanted, known));
}

}  // namespace

const KernelSet& kernel_set() { return chosen().set(); }
AttentionFunctions attention_functions(DType dtype) { return chosen().attention(dtype); }

}  // namespace tessera::kernels
