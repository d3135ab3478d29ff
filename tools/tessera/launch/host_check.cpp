// SPDX-License-Identifier: Apache-2.0
#include "launch/host_check.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <ctime>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>

#include "launch/child.h"
#include "launch/rank_end.h"

namespace tessera::command {
namespace {

using Clock = std::chrono::steady_clock;

struct RunningCheck {
  std::string host;
  std::string text_file;  // what the agent writes to standard error
  pid_t process = 0;
  std::optional<ProcessEnd> end{};  // empty: it runs
};

std::string address_text(const sockaddr& address) {
  std::array<char, NI_MAXHOST> text{};
  const socklen_t size = address.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  (void)getnameinfo(&address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return text.data();
}

std::set<std::string> addresses_of_this_host() {
  std::set<std::string> out;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return out;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next)
    if (one->ifa_addr != nullptr && (one->ifa_addr->sa_family == AF_INET || one->ifa_addr->sa_family == AF_INET6))
      out.insert(address_text(*one->ifa_addr));
  freeifaddrs(first);
  return out;
}

// Hosts whose check cannot be started count as hosts that answer.
std::vector<RunningCheck> start_checks(const std::vector<Host>& hosts, const std::vector<std::string>& agent,
                                       const std::string& folder) {
  std::vector<RunningCheck> out;
  for (const Host& host : hosts) {
    if (is_this_host(host.name)) continue;
    RunningCheck check{host.name, fmt::format("{}/host.{}", folder, out.size())};
    ChildOptions options{.words = agent, .signal_at_death = SIGKILL, .has_output = false};
    options.words.insert(options.words.end(), {host.address, "true"});
    const int text = open(check.text_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                          0600);  // NOLINT(cppcoreguidelines-pro-type-vararg)
    check.process = start_process(options, text);
    if (text >= 0) close(text);
    if (check.process > 0) out.push_back(std::move(check));
  }
  return out;
}

void find_ends(std::vector<RunningCheck>& checks) {
  for (RunningCheck& check : checks) {
    int status = 0;
    if (!check.end && waitpid(check.process, &status, WNOHANG) == check.process)
      check.end = ProcessEnd::from_wait(status);
  }
}

// Waits for the ends of all checks, at most until the deadline. Returns a signal that arrives meanwhile, or 0.
int wait_for_ends(std::vector<RunningCheck>& checks, Clock::time_point deadline) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGCHLD}) sigaddset(&signals, signal);
  while (true) {
    find_ends(checks);
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - Clock::now()).count();
    const bool is_over =
        std::all_of(checks.begin(), checks.end(), [](const RunningCheck& one) { return one.end.has_value(); });
    if (is_over || left <= 0) return 0;
    constexpr std::int64_t kSecond = 1'000'000'000;
    const timespec most{left / kSecond, left % kSecond};
    const int signal = sigtimedwait(&signals, nullptr, &most);
    if (signal > 0 && signal != SIGCHLD) return signal;
  }
}

// Returns "" if the host has answered.
std::string cause_of(const RunningCheck& check, const std::string& agent, std::chrono::seconds most) {
  if (!check.end) return fmt::format("no answer within {} s", most.count());
  if (check.end->is_good()) return "";
  std::ifstream file(check.text_file);
  std::string text(std::istreambuf_iterator<char>(file), {});
  std::erase(text, '\r');  // ssh ends its lines with \r\n
  LastLines last;
  last.add(text);
  const std::vector<std::string> lines = last.lines();
  return lines.empty() ? fmt::format("{} {}", agent, check.end->str()) : lines.back();
}

}  // namespace

bool is_this_host(const std::string& name) {
  const std::string host = name.substr(name.find('@') + 1);
  std::array<char, 256> own{};
  gethostname(own.data(), own.size() - 1);
  if (host == "localhost" || host == own.data()) return true;
  addrinfo* first = nullptr;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &first) != 0) return false;
  const std::set<std::string> addresses = addresses_of_this_host();
  bool out = false;
  for (const addrinfo* one = first; one != nullptr; one = one->ai_next) {
    const std::string address = address_text(*one->ai_addr);
    out = out || address.starts_with("127.") || addresses.contains(address);
  }
  freeaddrinfo(first);
  return out;
}

std::vector<Host> unresolved(const std::vector<Host>& hosts) {
  std::vector<Host> out;
  for (const Host& host : hosts) {
    const std::string name = host.name.substr(host.name.find('@') + 1);
    addrinfo* first = nullptr;
    if (getaddrinfo(name.c_str(), nullptr, nullptr, &first) == 0)
      freeaddrinfo(first);
    else
      out.push_back(host);
  }
  return out;
}

HostCheck check_hosts(const std::vector<Host>& hosts, const std::vector<std::string>& agent, std::chrono::seconds most,
                      const std::string& folder) {
  std::vector<RunningCheck> checks = start_checks(hosts, agent, folder);
  HostCheck out{.signal = wait_for_ends(checks, Clock::now() + most)};
  for (const RunningCheck& check : checks) {
    if (std::string cause = cause_of(check, agent.front(), most); !cause.empty())
      out.lost.push_back({check.host, std::move(cause)});
    if (check.end) continue;
    kill(-check.process, SIGKILL);
    waitpid(check.process, nullptr, 0);
  }
  return out;
}

}  // namespace tessera::command
