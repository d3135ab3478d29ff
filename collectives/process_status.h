// SPDX-License-Identifier: Apache-2.0
// The information of the system about a process.
#pragma once

#include <sys/types.h>

#include <string>

namespace tessera::collectives {

struct ProcessStatus {
  std::string name;
  char state = '?';  // R: it runs, S: it sleeps, T and t: stopped by a signal or a debugger (man 5 proc)
  pid_t parent = 0;

  [[nodiscard]] bool is_stopped() const { return state == 'T' || state == 't'; }
};

/// Reads /proc/ID/stat. Without this file, the name is empty.
ProcessStatus process_status(pid_t id);

}  // namespace tessera::collectives
