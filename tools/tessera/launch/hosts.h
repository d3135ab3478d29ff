// SPDX-License-Identifier: Apache-2.0
// The hosts in the options of mpirun, `--host node1:16,node2:16` or `--hostfile FILE`, and a start without some of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::command {

/// A host of the job.
struct Host {
  std::string name;        // as the options give it
  std::string address;     // for the launch agent: the name, or USER@NAME
  std::int64_t slots = 0;  // 0: not given; mpirun then counts the cores
};

/// Returns the hosts, each once. Those of --host take precedence, as in mpirun. Empty if no option names hosts, or if
/// --host counts them instead (`+n0`). Hostfiles that cannot be read count as empty: mpirun reports them.
std::vector<Host> hosts_in(const std::vector<std::string>& options);

/// True if an option names hosts, a hostfile or a number of hosts.
bool names_hosts(const std::vector<std::string>& options);

/// Whether mpirun refuses to start so many ranks without --oversubscribe, because all of them are on this host: the options
/// name no hosts, and do not themselves decide how many ranks a core may have. `cores`: those that mpirun counts as slots.
bool needs_oversubscribe(const std::vector<std::string>& options, std::int64_t ranks, std::int64_t cores);
/// The cores of this host on which this process may run, without their further hardware threads.
std::int64_t usable_core_count();

/// Error if a hostfile in the options cannot be read.
void check_hostfiles(const std::vector<std::string>& options);

/// Returns the options without the hosts of these names. Copies of hostfiles are written into `folder`. Error if a
/// hostfile cannot be copied.
std::vector<std::string> options_without(const std::vector<std::string>& options, const std::vector<std::string>& names,
                                         const std::string& folder);

/// How many ranks the job has on some hosts.
struct RankCount {
  std::int64_t ranks = 0;
  std::string problem;  // why the job cannot run there; "" if it can
};
/// `wanted` ranks, or fewer if there are fewer slots, but at least `least` (0: not fewer).
RankCount ranks_on(const std::vector<Host>& hosts, std::int64_t wanted, std::int64_t least);

/// Returns the program, with its arguments, that mpirun with these options calls to run `HOST COMMAND`: usually ssh.
std::vector<std::string> launch_agent(const std::vector<std::string>& options);

}  // namespace tessera::command
