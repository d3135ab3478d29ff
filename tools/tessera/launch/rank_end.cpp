// SPDX-License-Identifier: Apache-2.0
#include "launch/rank_end.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstring>
#include <optional>
#include <utility>

#include "tessera/base/text.h"

namespace tessera::command {
namespace {

constexpr char kMark = '\x1e';  // "record separator"
constexpr std::string_view kStart = "tessera-rank-start";
constexpr std::string_view kWord = "tessera-rank-word";
constexpr std::string_view kEnd = "tessera-rank-end";
constexpr std::size_t kMostLines = 12;
constexpr std::size_t kMostCharacters = 400;
constexpr std::size_t kMostOpen = 2048;  // longer than every line of a report
constexpr int kKilledBySignal = 128;

std::string signal_text(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

template <class T>
bool read_number(std::string_view text, T& into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc() && end == text.data() + text.size();
}

// RANK HOST PROCESS CODE SIGNAL IS_ENDED TIME
std::optional<RankEnd> parse_end(std::string_view text) {
  const std::vector<std::string> parts = split(text, ' ');
  constexpr std::size_t kParts = 7;
  RankEnd out;
  if (parts.size() != kParts || !read_number(parts[0], out.rank) || !read_number(parts[2], out.process) ||
      !read_number(parts[3], out.end.exit_code) || !read_number(parts[4], out.end.signal) ||
      !read_number(parts[6], out.time))
    return std::nullopt;
  out.is_ended = parts[5] == "1";
  out.host = parts[1];
  return out;
}

}  // namespace

int ProcessEnd::status() const { return signal != 0 ? kKilledBySignal + signal : exit_code; }

std::string ProcessEnd::str() const {
  return signal != 0 ? fmt::format("was killed by {}", signal_text(signal))
                     : fmt::format("ended with exit code {}", exit_code);
}

ProcessEnd ProcessEnd::from_wait(int status) {
  if (WIFSIGNALED(status)) return {0, WTERMSIG(status)};
  return {WEXITSTATUS(status), 0};
}

std::string RankEnd::str() const { return is_ended ? "was ended by the launcher" : end.str(); }

void LastLines::add(std::string_view text) {
  for (const char c : text) {
    // A carriage return writes over the line, as progress bars do.
    if (c == '\n' && !open_.empty()) {
      lines_.push_back(std::move(open_));
      if (lines_.size() > kMostLines) lines_.pop_front();
    }
    if (c == '\n' || c == '\r')
      open_.clear();
    else if (open_.size() < kMostCharacters && (static_cast<unsigned char>(c) >= ' ' || c == '\t'))
      open_ += c;
  }
}

std::vector<std::string> LastLines::lines() const {
  std::vector<std::string> out(lines_.begin(), lines_.end());
  if (!open_.empty()) out.push_back(open_);
  return out;
}

std::vector<std::string> report_lines(const RankEnd& end) {
  std::vector<std::string> out;
  for (const std::string& word : end.last_words)
    out.push_back(fmt::format("{}{} {} {}\n", kMark, kWord, end.rank, word));
  out.push_back(fmt::format("{}{} {} {} {} {} {} {:d} {}\n", kMark, kEnd, end.rank, end.host, end.process,
                            end.end.exit_code, end.end.signal, end.is_ended, end.time));
  return out;
}

std::string start_report(int rank) { return fmt::format("{}{} {}\n", kMark, kStart, rank); }

std::string ReportReader::take(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    if (open_.empty()) {
      const auto mark = std::min(text.find(kMark), text.size());
      out += text.substr(0, mark);
      text.remove_prefix(mark);
      if (text.empty()) break;
    }
    const auto end = text.find('\n');
    open_ += text.substr(0, end);
    text.remove_prefix(std::min(end, text.size() - 1) + 1);
    if (end == std::string_view::npos && open_.size() < kMostOpen) break;
    read_line(std::exchange(open_, ""));
  }
  return out;
}

void ReportReader::read_line(std::string_view line) {
  if (!line.empty() && line.front() == kMark) line.remove_prefix(1);
  const auto space = line.find(' ');
  if (space == std::string_view::npos) return;
  const std::string_view kind = line.substr(0, space);
  line.remove_prefix(space + 1);
  has_started_ = has_started_ || kind == kStart || kind == kEnd;
  if (kind == kWord) {
    const auto end = line.find(' ');
    int rank = 0;
    if (end != std::string_view::npos && read_number(line.substr(0, end), rank) && words_[rank].size() <= kMostLines)
      words_[rank].emplace_back(line.substr(end + 1));
  } else if (auto found = kind == kEnd ? parse_end(line) : std::nullopt) {
    const int rank = found->rank;
    found->last_words = std::move(words_[rank]);
    ends_[rank] = *std::move(found);
  }
}

}  // namespace tessera::command
