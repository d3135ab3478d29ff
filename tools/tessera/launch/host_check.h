// SPDX-License-Identifier: Apache-2.0
// Which hosts have an address before the first start, and which of them answer before a restart.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launch/hosts.h"

namespace tessera::command {

struct LostHost {
  std::string name;
  std::string cause;  // `no answer within 10 s`, or the last line that the agent wrote to standard error
};

struct HostCheck {
  std::vector<LostHost> lost{};
  int signal = 0;  // arrived during the check and ended it; 0: none
};

/// True if the name is that of this host, or its address is one of this host. mpirun needs no agent for it, and asks the
/// resolver for each name too.
bool is_this_host(const std::string& name);

/// Returns the hosts whose names cannot be resolved. The agent may nevertheless know them, from ssh's configuration.
std::vector<Host> unresolved(const std::vector<Host>& hosts);

/// Starts `true` on all hosts but this one at the same time, as `AGENT ADDRESS true`. A host is lost if this fails or
/// takes longer than `most`. `folder`: for temporary files. Needs block_signals().
HostCheck check_hosts(const std::vector<Host>& hosts, const std::vector<std::string>& agent, std::chrono::seconds most,
                      const std::string& folder);

}  // namespace tessera::command
