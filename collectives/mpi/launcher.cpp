// SPDX-License-Identifier: Apache-2.0
#include "mpi/launcher.h"

#include <fmt/core.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

namespace tessera::collectives {
namespace {

constexpr std::array<std::string_view, 6> kLaunchers = {"mpirun", "mpiexec", "orterun", "prterun", "orted", "prted"};
constexpr auto kBetweenSignals = std::chrono::milliseconds(300);  // a second one within 5 s ends mpirun immediately

struct Process {
  std::string name;
  pid_t parent = 0;
};

// Parses `PID (NAME) STATE PARENT …`.
Process process_of(pid_t id) {
  std::ifstream file(fmt::format("/proc/{}/stat", id));
  std::string line;
  std::getline(file, line);
  const auto open = line.find('(');
  const auto close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close + 4 > line.size()) return {};
  return {line.substr(open + 1, close - open - 1),
          static_cast<pid_t>(std::strtol(line.c_str() + close + 4, nullptr, 10))};
}

// The nearest ancestor that is a launcher, because a shell may be in between; 0 if there is none.
pid_t launcher() {
  constexpr int kMostBetween = 4;
  pid_t id = getppid();
  for (int i = 0; i < kMostBetween && id > 1; ++i) {
    const Process process = process_of(id);
    if (std::find(kLaunchers.begin(), kLaunchers.end(), process.name) != kLaunchers.end()) return id;
    id = process.parent;
  }
  return 0;
}

}  // namespace

void end_launcher() {
  const pid_t id = launcher();
  if (id == 0) return;
  (void)signal(SIGTERM, SIG_IGN);  // the launcher answers with this signal
  (void)kill(id, SIGTERM);
  std::this_thread::sleep_for(kBetweenSignals);
  (void)kill(id, SIGTERM);
}

}  // namespace tessera::collectives
