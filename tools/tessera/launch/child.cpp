// SPDX-License-Identifier: Apache-2.0
#include "launch/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "tessera/base/error.h"

namespace tessera::command {
namespace {

constexpr std::array kReceived = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD};
constexpr int kCannotRun = 127;

sigset_t received_signals() {
  sigset_t out;
  sigemptyset(&out);
  for (const int signal : kReceived) sigaddset(&out, signal);
  return out;
}

std::string reason() { return std::strerror(errno); }

// In the new process.
[[noreturn]] void become(const ChildOptions& options, pid_t parent, int text, int output) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, options.signal_at_death);  // NOLINT(cppcoreguidelines-pro-type-vararg)
  if (getppid() != parent) _exit(kCannotRun);        // the parent ended before
  dup2(text, STDERR_FILENO);
  if (output >= 0) dup2(output, STDOUT_FILENO);
  const int empty = open("/dev/null", O_RDWR);  // NOLINT(cppcoreguidelines-pro-type-vararg)
  if (!options.has_input) dup2(empty, STDIN_FILENO);
  if (!options.has_output) dup2(empty, STDOUT_FILENO);
  close(empty);
  for (const auto& [name, value] : options.variables) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> words;
  for (const std::string& word : options.words) words.push_back(const_cast<char*>(word.c_str()));  // NOLINT
  words.push_back(nullptr);
  (void)std::signal(SIGPIPE, SIG_DFL);
  for (const int signal : options.ignored_signals) (void)std::signal(signal, SIG_IGN);
  const sigset_t signals = received_signals();
  sigprocmask(SIG_UNBLOCK, &signals, nullptr);
  execvp(words.front(), words.data());
  write_error_text("cannot run " + options.words.front() + ": " + reason() + "\n");
  _exit(kCannotRun);
}

}  // namespace

int signal_for_launcher(int signal, bool is_srun) {
  if (signal == SIGINT && !is_srun) return SIGALRM;
  return signal == SIGUSR1 ? SIGUSR1 : SIGUSR2;
}

int signal_for_rank(int signal) {
  if (signal == SIGALRM || signal == SIGINT) return SIGINT;
  return signal == SIGUSR1 ? SIGUSR1 : SIGTERM;
}

void block_signals() {
  const sigset_t signals = received_signals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  (void)std::signal(SIGPIPE, SIG_IGN);
}

void occupy_standard_streams() {
  int descriptor = -1;
  do descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC);  // NOLINT(cppcoreguidelines-pro-type-vararg)
  while (descriptor >= 0 && descriptor <= STDERR_FILENO);
  close(descriptor);
}

void write_error_text(std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = write(STDERR_FILENO, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
}

pid_t start_process(const ChildOptions& options, int text, int output) {
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process == 0) become(options, parent, text, output);
  if (process > 0) (void)setpgid(process, process);  // here too, so that signals to the group are not lost
  return process;
}

namespace {

// A pipe whose end for reading does not block.
std::array<int, 2> make_pipe() {
  std::array<int, 2> ends{};
  require(pipe2(ends.data(), O_CLOEXEC) == 0, "cannot create a pipe: {}", reason());
  (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);  // NOLINT(cppcoreguidelines-pro-type-vararg)
  return ends;
}

}  // namespace

OutputRelay::~OutputRelay() {
  if (pipe_ >= 0) close(pipe_);
}

int OutputRelay::open() {
  const auto [from, to] = make_pipe();
  pipe_ = from;
  return to;
}

pollfd OutputRelay::awaited() const {
  if (has_text()) return {STDOUT_FILENO, POLLOUT, 0};
  return {pipe_, POLLIN, 0};
}

void OutputRelay::set_error(int error) {
  if (error_ == 0) error_ = error;
  text_.clear();
}

void OutputRelay::step() {
  if (has_text()) {
    constexpr std::size_t kMost = PIPE_BUF;  // a pipe with space has space for this much
    const ssize_t put = write(STDOUT_FILENO, text_.data(), std::min(text_.size(), kMost));
    if (put >= 0)
      text_.erase(0, static_cast<std::size_t>(put));
    else if (errno != EINTR && errno != EAGAIN)
      set_error(errno);
    return;
  }
  std::array<char, 1 << 16> buffer;
  const ssize_t got = read(pipe_, buffer.data(), buffer.size());
  if (got > 0 && error_ == 0) text_.assign(buffer.data(), static_cast<std::size_t>(got));
  if (got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN))) return;
  close(pipe_);
  pipe_ = -1;
}

Child::Child(const ChildOptions& options) {
  const auto [from, to] = make_pipe();
  const int output = options.passes_output_on ? output_.open() : -1;
  const sigset_t signals = received_signals();
  signals_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  text_ = from;
  process_ = start_process(options, to, output);
  close(to);
  if (output >= 0) close(output);
  require(signals_ >= 0 && process_ > 0, "cannot start {}: {}", options.words.front(), reason());
}

Child::~Child() {
  if (text_ >= 0) close(text_);
  if (signals_ >= 0) close(signals_);
}

// Returns false at the end of the text, or if there is none now.
bool Child::read_text(const Handlers& handlers) const {
  std::array<char, 1 << 14> buffer;
  const ssize_t got = read(text_, buffer.data(), buffer.size());
  if (got < 0 && errno == EINTR) return true;
  if (got > 0) handlers.on_text({buffer.data(), static_cast<std::size_t>(got)});
  return got > 0;
}

// Returns true when the child has ended.
bool Child::read_signals(const Handlers& handlers) {
  signalfd_siginfo info{};
  while (read(signals_, &info, sizeof(info)) == sizeof(info))
    if (info.ssi_signo != SIGCHLD) handlers.on_signal(static_cast<int>(info.ssi_signo));
  int status = 0;
  if (waitpid(process_, &status, WNOHANG) != process_) return false;
  end_ = ProcessEnd::from_wait(status);
  return true;
}

int Child::milliseconds_left() const {
  if (!deadline_) return -1;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*deadline_ - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000));
}

// What the child has written before its end. If a signal arrives, the rest is lost: the reader may never read it.
void Child::pass_on_rest() {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGCHLD);
  const timespec now{};
  while (sigtimedwait(&ends, nullptr, &now) > 0) continue;  // that of the child is no reason to stop
  while (true) {
    std::array<pollfd, 2> watched{{output_.awaited(), {signals_, POLLIN, 0}}};
    const bool waits_for_reader = output_.has_text();
    (void)poll(watched.data(), watched.size(), waits_for_reader ? -1 : 0);
    if (watched[0].revents != 0)
      output_.step();
    else if (waits_for_reader && watched[1].revents != 0)
      output_.set_error(EINTR);
    else if (!waits_for_reader)
      return;
  }
}

ProcessEnd Child::wait(const Handlers& handlers) {
  std::array<pollfd, 3> watched{{{signals_, POLLIN, 0}, {text_, POLLIN, 0}, {-1, 0, 0}}};
  while (!read_signals(handlers)) {
    if (deadline_ && Clock::now() >= *deadline_) {
      deadline_.reset();
      handlers.on_time();
    }
    watched[2] = output_.awaited();
    (void)poll(watched.data(), watched.size(), milliseconds_left());
    if (watched[2].revents != 0) output_.step();
    const bool has_ended = watched[1].revents != 0 && !read_text(handlers);
    if (has_ended) watched[1].fd = -1;  // a negative number is not watched
    watched[1].revents = 0;
  }
  while (read_text(handlers)) continue;
  pass_on_rest();
  return end_;
}

}  // namespace tessera::command
