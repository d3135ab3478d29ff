// SPDX-License-Identifier: Apache-2.0
// The source of every value's data after following tuples, reshapes, copies, barriers and views.
//
// A slot is one leaf of one instruction. Its origin is the slot whose instruction writes the data; its view specifies
// how to read the data.
#pragma once

#include <optional>
#include <vector>

#include "op_kinds.h"
#include "tessera/ir/program.h"
#include "tessera/schedule/schedule.h"

namespace tessera::schedule {

struct Slot {
  Id id = -1;
  int leaf = 0;
  Type type;
  int origin = -1;
  std::optional<View> view;  // onto the origin's buffer; nullopt if the bytes are the same. For an origin: its layout
};

struct Flow {
  const Program* program = nullptr;
  const Computation* computation = nullptr;
  std::vector<OpView> views;    // per instruction
  std::vector<OpKind> kinds;    // per instruction
  std::vector<int> first_slot;  // per instruction
  std::vector<Slot> slots;
  std::vector<bool> in_memory;  // per instruction: computed by its own step or in a group
  // Per instruction in memory: the origin slots that it reads, without duplicates.
  std::vector<std::vector<int>> reads;
  std::vector<std::vector<Id>> consumers;  // per origin slot: its readers, in order of ids
  std::vector<bool> is_result;             // per origin slot: whether it is (part of) the root
  // Per instruction: the instructions in memory for which it waits through control edges.
  std::vector<std::vector<Id>> waits;
  std::vector<bool> has_effect;  // per instruction: in memory and with a side effect; each waits for the previous one

  [[nodiscard]] const Slot& slot(Id id, int leaf = 0) const { return at(slots, at(first_slot, id) + leaf); }
  [[nodiscard]] int origin_of(Id id, int leaf = 0) const { return slot(id, leaf).origin; }
  [[nodiscard]] int leaf_count(Id id) const;
  /// Whether the slot is an iota that every reader computes itself.
  [[nodiscard]] bool is_recomputed(int slot) const {
    const Id id = at(slots, slot).id;
    return at(kinds, id) == OpKind::kIota && !at(in_memory, id);
  }
  /// Slots [first, last) of an instruction.
  [[nodiscard]] std::pair<int, int> slot_range(Id id) const;
};

Flow analyze_flow(const Program& program, const Computation& computation, const ScheduleOptions& options);

}  // namespace tessera::schedule
