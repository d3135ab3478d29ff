// SPDX-License-Identifier: Apache-2.0
// Describes an inserted reshard: its reason, the origin of both shardings, and the remedy.
#pragma once

#include <optional>
#include <string>

#include "pipeline/origins.h"

namespace tessera {

/// The purpose of a reshard.
enum class ReshardCause : std::uint8_t {
  kUse,         // an operand, or the result of an op
  kMark,        // an annotation within the program
  kResult,      // the result of a computation, without an annotation
  kGivenResult  // the result of a computation, with an annotation
};

struct ReshardReason {
  const Computation& made;  // the computation under construction that contains `source`
  const ValueOrigins& origins;
  Id source;  // the resharded value
  const Sharding& target;
  std::string by;  // the consumer, in words: "operand 0 of dot %h"
  ReshardCause cause = ReshardCause::kUse;
  Id mark = -1;                       // the annotation
  std::optional<std::string> region;  // the manual axes of the enclosing region
};

/// Adds the reason to `notes`.
NotesRef reshard_notes(const NotesRef& notes, const ReshardReason& reason);

/// The op that produced the partial sum `id`; ops between them only pass it on.
Id summing_op(const Computation& made, Id id);
/// `id`, or the source of the reshards that produced it.
Id before_reshards(const Computation& made, Id id);

/// The name of a value in explanations. A part of a loop's state is named by the value into which the program extracts
/// it.
std::string shown_name(const Computation& made, const ValueOrigins& origins, Id id);

/// Text such as `as computed from %x {data,-}, %w {-,model}`.
std::string computed_from(const Computation& made, const ValueOrigins& origins, const Instruction& instruction);

}  // namespace tessera
