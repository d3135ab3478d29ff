// SPDX-License-Identifier: Apache-2.0
// Compares the memory that a program needs with the limits of its processes, before its first run.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tessera {

struct ExpectedProgram;

/// What a rank tells the others before the first run of a program. All zero: nothing to compare.
struct MemoryNeed {
  std::int64_t more = 0;      // bytes that the run adds to the memory of the rank
  std::int64_t later = 0;     // the same for the program of expect_program(); 0: none
  std::uint64_t process = 0;  // differs between processes
  std::int64_t held = 0;      // by the process, before the run
  std::int64_t limit = 0;     // of the process; 0: none
  /// The control group or machine of the process that has the least memory left, by a hash of its name.
  std::uint64_t group = 0;
  std::int64_t group_used = 0;
  std::int64_t group_limit = 0;  // 0: none
  bool is_machine = false;       // the group is the complete machine
};

/// The need of this rank, with the limits of TESSERA_MEMORY_LIMIT, of the control groups and of the machine.
MemoryNeed memory_need(std::int64_t more);

/// The program of expect_program(), or null.
const ExpectedProgram* expected_program();

/// Logs for debugging what the process holds before the first run of a program, the plan of the program, and what the run
/// adds. bench/memory compares this with the memory that the process then uses.
void log_memory_need(std::string_view program, int rank, std::int64_t plan, std::int64_t more);

/// Returns which process or group of processes needs more than its limit allows, or "" if none does. The index of a
/// need is its rank.
std::string memory_excess(std::span<const MemoryNeed> needs);

/// Returns the bytes that each rank may add if all add the same, or nullopt if there is no limit. Negative: a process or
/// group exceeds its limit already. The index of a need is its rank; `more` is not used.
std::optional<std::int64_t> left_for_each(std::span<const MemoryNeed> needs);

}  // namespace tessera
