// SPDX-License-Identifier: Apache-2.0
// The values of a schedule that stay in memory, when they are read, and what computing each one again, or writing it to
// a file, would need.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/ir/program.h"
#include "tessera/schedule/schedule.h"
#include "tessera/sharding/machine.h"

namespace tessera {

/// A value in the arena. Times are steps of the schedule.
struct LiveValue {
  Id id = -1;
  int leaf = 0;
  std::int64_t bytes = 0;
  int made = 0;
  int last_read = 0;
  /// The longest time without a read: the value is read in (or made by) step `gap_begin` and next in step `gap_end`.
  int gap_begin = 0;
  int gap_end = 0;
  /// False for values with side effects, or of loops and branches.
  bool is_recomputable = false;
  double seconds = 0;  // to compute it again
  /// Whether it can be written to a file and read back.
  bool is_offloadable = false;
  double file_seconds = 0;       // to write and read it
  std::vector<int> inputs;       // the live values, as indices, that computing it again reads
  std::vector<Id> instructions;  // that compute it again from the inputs, in order; the last one is `id`
};

/// The values of at least `least_bytes` in the arena, in the order in which they are made.
std::vector<LiveValue> find_live_values(const Program& program, const Schedule& schedule, const MachineModel& machine,
                                        std::int64_t least_bytes);

}  // namespace tessera
