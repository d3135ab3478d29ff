// SPDX-License-Identifier: Apache-2.0
// What is said of a reshard that was put in: why it is there, who chose both sides, what would remove it.
#pragma once

#include <optional>
#include <string>

#include "pipeline/origins.h"

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

/// The op that left the partial sum that `id` is: those behind it only hand it on.
Id summing_op(const Computation& made, Id id);
/// `id`, or what stands behind the reshards that make it.
Id before_reshards(const Computation& made, Id id);

/// What an explanation calls a value: a part of a loop's state by the name of what the program takes it apart into.
std::string shown_name(const Computation& made, const ValueOrigins& origins, Id id);

/// `as computed from %x {data,-}, %w {-,model}`
std::string computed_from(const Computation& made, const ValueOrigins& origins, const Instruction& instruction);

}  // namespace tessera
