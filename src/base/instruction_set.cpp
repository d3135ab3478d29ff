// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/instruction_set.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/options.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tessera {
namespace {

#if defined(__x86_64__)
// Linux gives the state of tile registers only to processes that request it.
bool may_use_amx() {
  constexpr unsigned kBf16AndTiles = 1U << 22 | 1U << 24;
  constexpr int kRequestState = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kBf16AndTiles) == kBf16AndTiles &&
         syscall(SYS_arch_prctl, kRequestState, kTileData) == 0;
}

InstructionSet detect() {
  if (__builtin_cpu_supports("avx2") == 0 || __builtin_cpu_supports("fma") == 0) return InstructionSet::kGeneric;
  if (__builtin_cpu_supports("avx512f") == 0 || __builtin_cpu_supports("avx512bw") == 0 ||
      __builtin_cpu_supports("avx512dq") == 0 || __builtin_cpu_supports("avx512vl") == 0)
    return InstructionSet::kAvx2;
  if (__builtin_cpu_supports("avx512bf16") == 0) return InstructionSet::kAvx512;
  return may_use_amx() ? InstructionSet::kAmx : InstructionSet::kAvx512Bf16;
}
#else
InstructionSet detect() { return InstructionSet::kGeneric; }
#endif

// Returns the number of the set that TESSERA_ISA names, or the number of names if it is unknown.
std::size_t wanted_set(const std::string& name) {
  return static_cast<std::size_t>(std::ranges::find(kInstructionSetNames, name) - kInstructionSetNames.begin());
}

}  // namespace

std::string_view instruction_set_name(InstructionSet set) {
  return kInstructionSetNames.at(static_cast<std::size_t>(set));
}

InstructionSet best_instruction_set() {
  static const InstructionSet kBest = detect();
  return kBest;
}

std::optional<InstructionSet> find_instruction_set() {
  const std::string& name = options().text("TESSERA_ISA");
  if (name.empty()) return best_instruction_set();
  const std::size_t wanted = wanted_set(name);
  if (wanted > static_cast<std::size_t>(best_instruction_set())) return std::nullopt;
  return static_cast<InstructionSet>(wanted);
}

InstructionSet instruction_set() {
  if (const auto found = find_instruction_set()) return *found;
  const std::string& name = options().text("TESSERA_ISA");
  require(wanted_set(name) == kInstructionSetNames.size(),
          "TESSERA_ISA={}: this processor does not support it; its best is {}", name,
          instruction_set_name(best_instruction_set()));
  fail("TESSERA_ISA={}: unknown instruction set{}", name,
       suggest_name(name, std::vector<std::string>(kInstructionSetNames.begin(), kInstructionSetNames.end())));
}

}  // namespace tessera
