// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera {

/// The instruction sets for which kernels exist, in increasing order: a processor with one of them has those before it.
enum class InstructionSet : std::uint8_t {
  kGeneric,
  kAvx2,
  kAvx512,
  kAvx512Bf16,  ///< also products of bf16
  kAmx,         ///< also tile registers for bf16, if Linux gives their state to this process
};

inline constexpr std::array<std::string_view, 5> kInstructionSetNames = {"generic", "avx2", "avx512", "avx512bf16",
                                                                         "amx"};

/// Returns the name that TESSERA_ISA has for the set.
std::string_view instruction_set_name(InstructionSet set);

/// Returns the best set that this processor supports.
InstructionSet best_instruction_set();

/// Returns the set that TESSERA_ISA names, or else the best one. All ranks of a job use the same one. Throws Error if the
/// name is unknown or the processor does not support the set.
InstructionSet instruction_set();

/// The same; std::nullopt instead of an error.
std::optional<InstructionSet> find_instruction_set();

}  // namespace tessera
