// SPDX-License-Identifier: Apache-2.0
// Frontend attributes that say why an instruction is there, not what it does (`tessera.reason`, `.from`, `.to`, `.remedy`, …). An
// instruction that does what several did keeps what each of them said, by part:
//
//   tessera.unit="h.0", tessera.reason="operand 1 of dot %h must be {-,-}", tessera.reason.1="operand 1 of dot %g must be {-,-}"
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/ir/program.h"

namespace tessera {

/// Of any part: two instructions that differ in such attributes alone do the same.
bool only_explains(std::string_view key);

/// The notes of an instruction that does what `parts` did: those of the first, and what the others say otherwise than it. All that
/// binds must be equal. An explanation that part k lacks and part 0 has is kept as empty.
NotesRef merged_notes(const std::vector<const Instruction*>& parts);

/// What part `part` says under `key`, or "".
std::string explanation(const Instruction& instruction, std::string_view key, std::size_t part);
/// The notes with what each part says under `key`.
NotesRef with_explanation(const NotesRef& notes, std::string_view key, const std::vector<std::string>& by_part);
/// `train.cpp:41` of a part, or "".
std::string source_of_part(const Instruction& instruction, std::size_t part);

/// True when the frontend attributes that do more than explain are equal, apart from those named in `but`.
bool equal_bindings(const Instruction& a, const Instruction& b, const std::vector<std::string_view>& but = {});
/// Equal for instructions with equal bindings.
std::size_t hash_bindings(const Instruction& instruction, const std::vector<std::string_view>& but = {});

}  // namespace tessera
