// SPDX-License-Identifier: Apache-2.0
// Frontend attributes that explain an instruction (`tessera.reason`, `.from`, `.to`, `.remedy`, `.subject`, …). An
// instruction that replaces several instructions keeps the explanations of all of them. Part k is the replaced
// instruction k:
//
//   tessera.unit="h.0", tessera.reason="operand 1 of dot %h must be {-,-}",
//   tessera.reason.1="operand 1 of dot %g must be {-,-}"
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/ir/program.h"

namespace tessera {

/// True for an attribute that only explains, of any part. Instructions that differ only in such attributes compute the
/// same value.
bool only_explains(std::string_view key);

/// The notes of an instruction that replaces `parts`: those of the first part, and the explanations of the others that
/// differ from it. All other attributes must be equal. If part k lacks an explanation that part 0 has, the notes
/// contain an empty text for part k.
NotesRef merged_notes(const std::vector<const Instruction*>& parts);

/// The explanation of part `part` under `key`, or "".
std::string explanation(const Instruction& instruction, std::string_view key, std::size_t part);
/// Returns the notes with the explanations of all parts under `key`.
NotesRef with_explanation(const NotesRef& notes, std::string_view key, const std::vector<std::string>& by_part);
/// The source line of a part, as `train.cpp:41`, or "".
std::string source_of_part(const Instruction& instruction, std::size_t part);

/// True if the frontend attributes are equal, except for those that only explain and those in `but`.
bool equal_bindings(const Instruction& a, const Instruction& b, const std::vector<std::string_view>& but = {});
/// A hash of the frontend attributes that equal_bindings() compares.
std::size_t hash_bindings(const Instruction& instruction, const std::vector<std::string_view>& but = {});

}  // namespace tessera
