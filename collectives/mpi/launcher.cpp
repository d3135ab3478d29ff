// SPDX-License-Identifier: Apache-2.0
#include "mpi/launcher.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "process_status.h"

namespace tessera::collectives {
namespace {

constexpr std::array<std::string_view, 6> kLaunchers = {"mpirun", "mpiexec", "orterun", "prterun", "orted", "prted"};
// The first signal makes mpirun wait for its daemons, and a second one within 5 s ends it without them. On a busy host,
// mpirun may see the two as one.
constexpr std::array<int, 3> kWaits = {5, 40, 40};  // after each signal, in units of kWait
constexpr int kMostFiles = 1024;
constexpr timespec kWait = {.tv_sec = 0, .tv_nsec = 100'000'000};

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

// A socket with the abstract name of the launcher (-1 if there are no more sockets). Nothing if a process of this host
// has it already, so that only one process signals the launcher.
std::optional<int> claim(pid_t id) {
  const std::string name = "tessera-ends-launcher-" + std::to_string(id);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (void)name.copy(address.sun_path + 1, sizeof(address.sun_path) - 1);
  const int file = socket(AF_UNIX, SOCK_DGRAM, 0);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const bool is_taken = bind(file, reinterpret_cast<const sockaddr*>(&address), length) != 0 && errno == EADDRINUSE;
  return is_taken ? std::nullopt : std::optional(file);
}

// Runs in a process that was forked from one with threads, so it only makes system calls.
[[noreturn]] void signal_until_ended(pid_t id, int claimed) {
  (void)setsid();  // the launcher ends the sessions of its ranks
  for (int file = 0; file < kMostFiles; ++file)
    if (file != claimed) (void)close(file);
  for (const int waits : kWaits) {
    (void)kill(id, SIGTERM);
    for (int i = 0; i < waits; ++i) {
      (void)nanosleep(&kWait, nullptr);
      if (kill(id, 0) != 0) _exit(0);
    }
  }
  (void)kill(id, SIGKILL);
  _exit(0);
}

}  // namespace

void end_launcher() {
  const pid_t id = launcher();
  const std::optional<int> claimed = id == 0 ? std::nullopt : claim(id);
  if (claimed && fork() == 0) signal_until_ended(id, *claimed);
}

}  // namespace tessera::collectives
