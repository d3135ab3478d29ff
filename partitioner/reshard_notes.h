// SPDX-License-Identifier: Apache-2.0
// What is said of a reshard that was put in: why it is there, who chose both sides, what would remove it.
#pragma once

#include <optional>
#include <string>

#include "tessera/ir/program.h"

namespace tessera {

/// What a reshard is made for.
enum class ReshardCause : std::uint8_t { kUse, kResult };

struct ReshardReason {
  const Instruction& source;   // what is resharded
  const Instruction& written;  // what the user wrote: `source`, or what stands behind the reshards put in before it
  const Sharding& target;
  std::string by;  // who needs it so: "operand 0 of dot %h"
  ReshardCause cause = ReshardCause::kUse;
  std::optional<std::string> region;  // the manual axes around it
};

/// `notes` with the reason in them.
NotesRef reshard_notes(const NotesRef& notes, const ReshardReason& reason);

}  // namespace tessera
