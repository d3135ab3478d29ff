// SPDX-License-Identifier: Apache-2.0
// Child processes, signals and the pipes of a child's standard error and standard output.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/rank_end.h"

namespace tessera::command {

/// The signals that reach a job, as `tessera launch` sends them to the launcher and as a rank receives them. Launchers
/// carry SIGUSR1 and SIGUSR2 to all ranks, mpirun also SIGALRM, but end the job themselves on SIGTERM and SIGINT.
int signal_for_launcher(int signal, bool is_srun);
int signal_for_rank(int signal);

struct ChildOptions {
  std::vector<std::string> words;                                // the program and its arguments
  std::vector<std::pair<std::string, std::string>> variables{};  // added to the environment
  int signal_at_death = 0;                                       // the child receives it when this process ends
  std::vector<int> ignored_signals{};                            // unless the program handles them
  bool has_input = false;                                        // else standard input is empty
  bool has_output = true;                                        // else standard output is discarded
  bool passes_output_on = false;                                 // Child writes it to its own, and notes errors
};

/// Starts a process in a process group of its own. It writes its standard error to the descriptor `text`, and its
/// standard output to `output`, or to that of this process if `output` is -1. Returns its number, or -1 with errno. Call
/// it in the main thread: the process receives signal_at_death when the thread ends.
pid_t start_process(const ChildOptions& options, int text, int output = -1);

/// Writes what arrives in a pipe to standard output. A reader that stops reading for a while does not block this process.
class OutputRelay {
 public:
  OutputRelay() = default;
  ~OutputRelay();
  OutputRelay(const OutputRelay&) = delete;
  OutputRelay& operator=(const OutputRelay&) = delete;

  /// Makes the pipe. Returns the end for its writer, which the caller closes.
  int open();
  /// The event before the next step(). Its descriptor is -1 if there is no pipe, or it has ended.
  [[nodiscard]] pollfd awaited() const;
  /// True if the next step writes.
  [[nodiscard]] bool has_text() const { return !text_.empty(); }
  /// Reads or writes a part. After an error, all further output is discarded.
  void step();
  /// The error number of the write that failed, or 0.
  [[nodiscard]] int error() const { return error_; }
  void set_error(int error);

 private:
  int pipe_ = -1;
  std::string text_;  // read, but not written
  int error_ = 0;
};

/// A child in a process group of its own, whose standard error this process reads. Signals to this process are passed to
/// `on_signal` instead of ending it. Make one object at a time, in the main thread: the child receives signal_at_death
/// when the thread ends.
class Child {
 public:
  explicit Child(const ChildOptions& options);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] pid_t process() const { return process_; }
  /// Runs until the child ends. Calls `on_text` with parts of its standard error, `on_signal` with signals to this
  /// process, and `on_time` when a deadline that one of them set has passed.
  struct Handlers {
    std::function<void(std::string_view)> on_text;
    std::function<void(int)> on_signal;
    std::function<void()> on_time;
  };
  ProcessEnd wait(const Handlers& handlers);
  /// With passes_output_on: the error number of the first output that could not be written, or 0.
  [[nodiscard]] int output_error() const { return output_.error(); }
  void set_deadline(std::chrono::milliseconds from_now) { deadline_ = Clock::now() + from_now; }

 private:
  using Clock = std::chrono::steady_clock;
  bool read_text(const Handlers& handlers) const;
  bool read_signals(const Handlers& handlers);
  void pass_on_rest();
  [[nodiscard]] int milliseconds_left() const;

  pid_t process_ = 0;
  int text_ = -1;
  int signals_ = -1;
  OutputRelay output_;
  std::optional<Clock::time_point> deadline_;
  ProcessEnd end_;
};

/// Blocks the signals that Child::wait() receives. Call it before the first child is made, so that none is lost.
void block_signals();

/// If a standard stream is closed, opens an empty file in its place: a pipe or a lock must not get its number. What is
/// written there is lost. Call it before other files are opened.
void occupy_standard_streams();

/// Writes all of the text to standard error. Errors are ignored: the reader may be gone.
void write_error_text(std::string_view text);

}  // namespace tessera::command
