// SPDX-License-Identifier: Apache-2.0
#include "process_status.h"

#include <fmt/core.h>

#include <cstdlib>
#include <fstream>

namespace tessera::collectives {

// Parses `ID (NAME) STATE PARENT …`; a name may contain parentheses.
ProcessStatus process_status(pid_t id) {
  std::ifstream file(fmt::format("/proc/{}/stat", id));
  std::string line;
  std::getline(file, line);
  const auto open = line.find('(');
  const auto close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close + 4 > line.size()) return {};
  return {line.substr(open + 1, close - open - 1), line[close + 2],
          static_cast<pid_t>(std::strtol(line.c_str() + close + 4, nullptr, 10))};
}

}  // namespace tessera::collectives
