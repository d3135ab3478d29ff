// SPDX-License-Identifier: Apache-2.0
// What each collective of a partitioned program costs; why it is there is read from the attributes its copy left on it.
#pragma once

#include <vector>

#include "tessera/partitioner/pipeline/partition.h"

namespace tessera {

/// Bytes one device receives when it runs a collective once (design.md, `stats`).
std::int64_t collective_bytes(const Computation& computation, const Instruction& instruction, std::int64_t partitions);

/// What a collective is held up by: the slowest of its axes (`tessera.axes`), of all axes where it names none.
Link link_of(const Program& program, const Instruction& collective, const Topology& topology);

/// The mesh axes that a collective of one array is over, parts of axes by the whole axis's name; none where no axes say its groups.
std::vector<std::string> axes_of(const Program& program, const Instruction& collective);

/// How often a computation runs per run of the entry.
struct RunCount {
  double times = 0;      // loops by their trip count where it is known, else once
  bool is_known = true;  // no loop around it of unknown trip count
};
std::vector<RunCount> known_run_counts(const Program& program);
/// The times alone.
std::vector<double> run_counts(const Program& program);

/// Whether the collectives keep within the limits.
bool keeps_limits(const std::vector<CollectiveNote>& notes, const CollectiveLimits& limits);
/// Throws an Error that lists those that do not, largest first.
[[noreturn]] void fail_beyond_limits(const std::vector<CollectiveNote>& notes, const CollectiveLimits& limits);

}  // namespace tessera
