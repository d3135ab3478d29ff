// SPDX-License-Identifier: Apache-2.0
// What is said of a reshard that was put in: why it is there, who chose both sides, what would remove it.
#pragma once

#include <optional>
#include <string>

#include "origins.h"

namespace tessera {

/// What a reshard is made for.
enum class ReshardCause : std::uint8_t {
  kUse,         // an operand, or the result of an op
  kMark,        // an annotation within the program
  kResult,      // the end of a computation, of which nobody said how it lies
  kGivenResult  // the same where the user did
};

struct ReshardReason {
  const Computation& made;  // where `source` stands, under construction
  const ValueOrigins& origins;
  Id source;  // what is resharded
  const Sharding& target;
  std::string by;  // who needs it so: "operand 0 of dot %h"
  ReshardCause cause = ReshardCause::kUse;
  Id mark = -1;                       // which annotation
  std::optional<std::string> region;  // the manual axes around it
};

/// `notes` with the reason in them.
NotesRef reshard_notes(const NotesRef& notes, const ReshardReason& reason);

/// `as computed from %x {data,-}, %w {-,model}`
std::string computed_from(const Computation& made, const Instruction& instruction);

}  // namespace tessera
