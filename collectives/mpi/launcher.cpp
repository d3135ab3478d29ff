// SPDX-License-Identifier: Apache-2.0
#include "mpi/launcher.h"

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <thread>

#include "process_status.h"

namespace tessera::collectives {
namespace {

constexpr std::array<std::string_view, 6> kLaunchers = {"mpirun", "mpiexec", "orterun", "prterun", "orted", "prted"};
constexpr auto kBetweenSignals = std::chrono::milliseconds(300);  // a second one within 5 s ends mpirun immediately

// The nearest ancestor that is a launcher, because a shell may be in between; 0 if there is none.
pid_t launcher() {
  constexpr int kMostBetween = 4;
  pid_t id = getppid();
  for (int i = 0; i < kMostBetween && id > 1; ++i) {
    const ProcessStatus process = process_status(id);
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
