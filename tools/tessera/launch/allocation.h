// SPDX-License-Identifier: Apache-2.0
// The hosts that Slurm or PBS has allocated to the job in which this command runs, from the variables that they set.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/hosts.h"

namespace tessera::command {

struct Allocation {
  std::string scheduler;    // "Slurm" or "PBS"
  std::vector<Host> hosts;  // each once; slots 0: the scheduler does not tell the number of ranks

  /// The number of ranks, or 0 if the scheduler does not tell it for each host.
  [[nodiscard]] std::int64_t ranks() const;
  /// The options with which mpirun uses these hosts.
  [[nodiscard]] std::vector<std::string> options() const;
  /// `2 hosts of the Slurm job: node1 (4), node2 (4)`, with the first hosts only if there are many.
  [[nodiscard]] std::string str() const;
};

/// Returns the hosts of a list of Slurm, such as `node[01-03,7],gpu3`, in its order. Error if the text is not such a
/// list, or has more than 65536 hosts.
std::vector<std::string> hosts_of_node_list(std::string_view text);

/// Returns the numbers of a list of Slurm, such as `4(x2),3`: 4, 4 and 3. Error if the text is not such a list.
std::vector<std::int64_t> counts_of_nodes(std::string_view text);

/// Returns the allocation, if there is one: that of SLURM_JOB_NODELIST, with the numbers of ranks in
/// SLURM_TASKS_PER_NODE or SLURM_NTASKS_PER_NODE, or that of the file PBS_NODEFILE, with one rank for each line. Errors
/// name the variable.
std::optional<Allocation> allocation_of_job();

}  // namespace tessera::command
