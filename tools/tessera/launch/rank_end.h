// SPDX-License-Identifier: Apache-2.0
// Reports of ranks: that they have started, how they ended, and their last output. The process that runs a rank writes
// them to its standard error, which the launcher carries to `tessera launch` from every host.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::command {

/// How a process ended: with an exit code, or killed by a signal.
struct ProcessEnd {
  int exit_code = 0;
  int signal = 0;
  [[nodiscard]] bool is_good() const { return exit_code == 0 && signal == 0; }
  /// The exit code, or 128 + the signal.
  [[nodiscard]] int status() const;
  /// `ended with exit code 1`, `was killed by SIGKILL`.
  [[nodiscard]] std::string str() const;
  /// From the status of waitpid().
  static ProcessEnd from_wait(int status);
};

/// The end of a rank.
struct RankEnd {
  int rank = 0;
  std::string host;
  std::int64_t process = 0;
  ProcessEnd end;
  bool is_ended = false;                // by the launcher, because another rank had ended
  std::int64_t time = 0;                // nanoseconds since 1970
  std::vector<std::string> last_words;  // the last lines on standard error
  /// `ended with exit code 1`, `was ended by the launcher`.
  [[nodiscard]] std::string str() const;
};

/// Collects the last lines of a text.
class LastLines {
 public:
  void add(std::string_view text);
  [[nodiscard]] std::vector<std::string> lines() const;

 private:
  std::deque<std::string> lines_;
  std::string open_;  // the line without an end
};

/// The lines of a report. Each starts with a character that texts do not contain, and is short enough to be written at
/// once.
std::vector<std::string> report_lines(const RankEnd& end);

/// The line that reports the start of a rank. Reports of ends may be lost: ranks that have waited too long for another
/// host end the launcher, which then forwards nothing.
std::string start_report(int rank);

/// Takes the lines of reports out of a stream of text.
class ReportReader {
 public:
  /// Returns the text without reports, as far as it is known not to be one.
  std::string take(std::string_view text);
  /// The ranks that have reported their end, by rank.
  [[nodiscard]] const std::map<int, RankEnd>& ends() const { return ends_; }
  /// True if a rank has reported its start or its end.
  [[nodiscard]] bool has_started() const { return has_started_; }

 private:
  void read_line(std::string_view line);

  std::string open_;  // the beginning of a report
  std::map<int, std::vector<std::string>> words_;
  std::map<int, RankEnd> ends_;
  bool has_started_ = false;
};

}  // namespace tessera::command
