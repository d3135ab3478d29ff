// SPDX-License-Identifier: Apache-2.0
// Where the data of every value comes from, once tuples, reshapes, copies, barriers and views are looked through.
//
// A slot is one leaf of one instruction. Its origin is the slot whose computation writes the data; a view says how to read it.
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
  std::optional<View> view;  // onto the origin's buffer; none: the same bytes. Of an origin: how it lies there
};

struct Flow {
  const Program* program = nullptr;
  const Computation* computation = nullptr;
  std::vector<OpView> views;    // per instruction
  std::vector<OpKind> kinds;    // per instruction
  std::vector<int> first_slot;  // per instruction
  std::vector<Slot> slots;
  std::vector<bool> in_memory;             // per instruction: computed by a step of its own or of a group
  std::vector<std::vector<int>> reads;     // per instruction in_memory: the origin slots it needs, each once
  std::vector<std::vector<Id>> consumers;  // per origin slot: who reads it, in id order
  std::vector<bool> is_result;             // per origin slot: (part of) the root
  std::vector<std::vector<Id>> waits;      // per instruction: in_memory instructions it waits for through control edges
  std::vector<bool> has_effect;  // per instruction: in_memory, and felt elsewhere; each waits for the one before

  [[nodiscard]] const Slot& slot(Id id, int leaf = 0) const { return at(slots, at(first_slot, id) + leaf); }
  [[nodiscard]] int origin_of(Id id, int leaf = 0) const { return slot(id, leaf).origin; }
  [[nodiscard]] int leaf_count(Id id) const;
  /// An iota that every reader makes for itself.
  [[nodiscard]] bool is_remade(int slot) const {
    const Id id = at(slots, slot).id;
    return at(kinds, id) == OpKind::kIota && !at(in_memory, id);
  }
  /// Slots [first, last) of an instruction.
  [[nodiscard]] std::pair<int, int> slot_range(Id id) const;
};

Flow analyze_flow(const Program& program, const Computation& computation, const ScheduleOptions& options);

}  // namespace tessera::schedule
