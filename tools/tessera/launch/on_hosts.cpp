// SPDX-License-Identifier: Apache-2.0
// tessera hosts: runs a command once on every host, for example to copy data.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "command_line.h"
#include "launch/allocation.h"
#include "launch/child.h"
#include "launch/host_check.h"
#include "launch/hosts.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"

namespace tessera::command {
namespace {

using Words = std::vector<std::string>;

// The word as a shell reads it.
std::string shell_word(const std::string& word) {
  std::string out = "'";
  for (const char c : word)
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  return out + "'";
}

// For the shell of a host: like mpirun, starts the command in the folder of this process.
std::string shell_text(const Words& command) {
  std::string out = fmt::format("cd {} && exec", shell_word(std::filesystem::current_path().string()));
  for (const std::string& word : command) out += " " + shell_word(word);
  return out;
}

// Starts a command on a host. Without an agent, srun does this: in a job of Slurm, ssh may be forbidden.
Words words_for(const Host& host, const Words& agent, const std::string& text) {
  if (is_this_host(host.name)) return {"/bin/sh", "-c", text};
  if (agent.empty()) return {"srun", "--overlap", "-N1", "-n1", "-w", host.name, "/bin/sh", "-c", text};
  Words out = agent;
  out.insert(out.end(), {host.address, text});
  return out;
}

// The command on one host.
class HostCommand {
 public:
  HostCommand(std::string host, const Words& words) : host_(std::move(host)) {
    std::array<int, 2> ends{};
    require(pipe2(ends.data(), O_CLOEXEC) == 0, "cannot create a pipe: {}", std::strerror(errno));
    // Standard output and standard error arrive in one pipe, in their order.
    ChildOptions options{.words = {"/bin/sh", "-c", "exec \"$@\" >&2", "sh"}, .signal_at_death = SIGTERM};
    options.words.insert(options.words.end(), words.begin(), words.end());
    process_ = start_process(options, ends[1]);
    const int error = errno;
    close(ends[1]);
    text_ = ends[0];
    require(process_ > 0, "cannot start {}: {}", words.front(), std::strerror(error));
  }

  /// The pipe, or -1 at its end.
  [[nodiscard]] int text() const { return text_; }
  [[nodiscard]] const std::string& host() const { return host_; }

  /// Reads a part of the text and prints its complete lines.
  void read_text() {
    std::array<char, 1 << 14> buffer;
    const ssize_t got = read(text_, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) return;
    if (got > 0)
      open_line_.append(buffer.data(), static_cast<std::size_t>(got));
    else if (!open_line_.empty())
      open_line_ += '\n';
    print_lines();
    if (got > 0) return;
    close(text_);
    text_ = -1;
  }

  /// Waits until the command has ended.
  [[nodiscard]] ProcessEnd end() const {
    int status = 0;
    while (waitpid(process_, &status, 0) < 0 && errno == EINTR) continue;
    return ProcessEnd::from_wait(status);
  }

 private:
  void print_lines() {
    std::string out;
    std::size_t begin = 0;
    for (auto end = open_line_.find('\n'); end != std::string::npos; end = open_line_.find('\n', begin)) {
      out += fmt::format("{}: {}\n", host_, std::string_view(open_line_).substr(begin, end - begin));
      begin = end + 1;
    }
    open_line_.erase(0, begin);
    if (!out.empty()) write_standard_output(out);
  }

  std::string host_;
  pid_t process_ = 0;
  int text_ = -1;
  std::string open_line_;  // the line without an end
};

void print_all(std::vector<HostCommand>& commands) {
  while (true) {
    std::vector<pollfd> watched;
    for (const HostCommand& one : commands) watched.push_back({one.text(), POLLIN, 0});  // -1 is not watched
    if (std::all_of(watched.begin(), watched.end(), [](const pollfd& one) { return one.fd < 0; })) return;
    (void)poll(watched.data(), watched.size(), -1);
    for (std::size_t i = 0; i < watched.size(); ++i)
      if (watched[i].revents != 0) commands[i].read_text();
  }
}

// The exit code of the first host whose command did not end with 0, in the order of the hosts.
int first_failure(const std::vector<HostCommand>& commands) {
  int out = 0;
  for (const HostCommand& one : commands) {
    const ProcessEnd end = one.end();
    if (end.is_good()) continue;
    write_error_text(fmt::format("tessera hosts: the command on host {} {}\n", one.host(), end.str()));
    if (out == 0) out = end.status();
  }
  return out;
}

int run_hosts(const Arguments& arguments) {
  Words options;
  for (const char* name : {"hostfile", "host"})
    if (const auto value = arguments.value(name)) options.insert(options.end(), {fmt::format("--{}", name), *value});
  check_hostfiles(options);
  const auto allocation = names_hosts(options) ? std::nullopt : allocation_of_job();
  const std::vector<Host> hosts = allocation ? allocation->hosts : hosts_in(options);
  if (hosts.empty())
    throw UsageError("no host is given: --host LIST or --hostfile FILE, if there is no job of Slurm or PBS");
  const bool uses_srun = allocation && allocation->scheduler == "Slurm";
  const Words agent = uses_srun ? Words{} : launch_agent(options);
  const std::string text = shell_text(arguments.inputs());
  std::vector<HostCommand> commands;
  commands.reserve(hosts.size());
  for (const Host& host : hosts) commands.emplace_back(host.name, words_for(host, agent, text));
  print_all(commands);
  return first_failure(commands);
}

}  // namespace

const Verb kHosts = {
    .name = "hosts",
    .about = "runs a command once on every host",
    .notes =
        "Each line that the command prints begins with the name of the host. No shell interprets the arguments: to use "
        "pipes or\n"
        "variables of the host, write sh -c TEXT. The exit code is that of the first host whose command did not end "
        "with 0.",
    .options = {{"hostfile", "FILE", "a hostfile of mpirun"},
                {"host", "LIST", "hosts, as in mpirun's --host; default: the hosts of the job of Slurm or PBS"}},
    .run = run_hosts,
    .input = "-- COMMAND ARGUMENTS...",
    .input_meaning = "the command to run: tessera hosts [options] -- COMMAND ARGUMENTS...",
    .takes_program = true};

}  // namespace tessera::command
