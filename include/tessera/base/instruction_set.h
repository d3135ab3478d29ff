// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera {

/// The instruction sets for which kernels exist. A processor that supports one of them also supports those before it.
enum class InstructionSet : std::uint8_t {
  kGeneric,
  kAvx2,
  kAvx512,
  kAvx512Bf16,  ///< also has products of bf16
  kAmx,         ///< also has tile registers for bf16; requires that Linux permits this process to use them
};

inline constexpr std::array<std::string_view, 5> kInstructionSetNames = {"generic", "avx2", "avx512", "avx512bf16",
                                                                         "amx"};

/// Returns the value of TESSERA_ISA that selects the set.
std::string_view instruction_set_name(InstructionSet set);

/// Returns the best set that this processor supports.
InstructionSet best_instruction_set();

/// Returns the set that TESSERA_ISA names, or else best_instruction_set(). If the ranks of a job have different sets,
/// make_world() sets TESSERA_ISA to the smallest one on all of them. Throws Error if the name is unknown or the
/// processor does not support the set.
InstructionSet instruction_set();

/// The same, but returns std::nullopt instead of throwing an Error.
std::optional<InstructionSet> find_instruction_set();

}  // namespace tessera
