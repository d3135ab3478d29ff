// SPDX-License-Identifier: Apache-2.0
// Which kernels a rank would choose by itself: ranks of a job must choose alike.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace tessera::collectives {

/// Instruction sets that kernels are made for, from the least on.
inline constexpr std::array<std::string_view, 3> kInstructionSets = {"generic", "avx2", "avx512"};
/// The place of this rank's among them: the best that the processor has, or the one TESSERA_ISA names; past the last for an unknown name.
std::size_t instruction_set();

}  // namespace tessera::collectives
