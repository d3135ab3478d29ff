// SPDX-License-Identifier: Apache-2.0
// The instruction set that a rank would select. All ranks of a job must use the same one.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace tessera::collectives {

/// The instruction sets for which kernels exist, in increasing order.
inline constexpr std::array<std::string_view, 3> kInstructionSets = {"generic", "avx2", "avx512"};
/// The index of this rank's instruction set: the best one that the processor supports, or the one that TESSERA_ISA
/// names. Past the end for an unknown name.
std::size_t instruction_set();

}  // namespace tessera::collectives
