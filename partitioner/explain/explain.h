// SPDX-License-Identifier: Apache-2.0
// The cost of each collective of a partitioned program. The reasons are in the frontend attributes of the collective,
// which the insertion of reshards has set.
#pragma once

#include <vector>

#include "tessera/partitioner/pipeline/partition.h"

namespace tessera {

/// Bytes one device receives when it runs a collective once.
std::int64_t collective_bytes(const Computation& computation, const Instruction& instruction, std::int64_t partitions);

/// The modelled time of a collective that runs once.
double collective_seconds(const Program& program, const Computation& computation, const Instruction& collective,
                          const Topology& topology);

/// The link that limits a collective: the slowest of its axes (`tessera.axes`), or of all axes if it names none.
Link link_of(const Program& program, const Instruction& collective, const Topology& topology);

/// The mesh axes of a collective of one array, with sub-axes given by the name of the axis. Empty if its groups do not
/// follow axes.
std::vector<std::string> axes_of(const Program& program, const Instruction& collective);

/// How often a computation runs per execution of the entry.
struct RunCount {
  double times = 0;      // loops count by their trip count if it is known, else once
  bool is_known = true;  // no enclosing loop has an unknown trip count
};
std::vector<RunCount> known_run_counts(const Program& program);
/// The `times` of all computations.
std::vector<double> run_counts(const Program& program);

/// Whether all collectives respect the limits.
bool keeps_limits(const std::vector<CollectiveNote>& notes, const CollectiveLimits& limits);
/// Throws an Error that lists the collectives that exceed the limits, largest first.
[[noreturn]] void fail_beyond_limits(const std::vector<CollectiveNote>& notes, const CollectiveLimits& limits);

}  // namespace tessera
