// SPDX-License-Identifier: Apache-2.0
#include "waiting.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <set>

#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/collectives/time_limit.h"

namespace tessera::collectives {
namespace {

constexpr std::size_t kMostLines = 12;

WaitingTime seconds_or_ever(const char* option) {
  const auto seconds = options().integer(option);
  return WaitingTime(seconds == 0 ? 1e9 : static_cast<double>(seconds));
}

std::string absence_text(const std::vector<int>& absent) {
  if (absent.empty()) return "ranks of other nodes have not arrived";
  return fmt::format("{} {} not arrived", rank_list(absent), absent.size() == 1 ? "has" : "have");
}

std::string line_of(int rank, const RankActivity& activity) {
  using enum RankActivity::State;
  switch (activity.state) {
    case kWaits:
      return activity.awaited.empty()
                 ? fmt::format("rank {} waits in {}", rank, activity.text)
                 : fmt::format("rank {} waits for {} in {}", rank, rank_list(activity.awaited), activity.text);
    case kStopped:
      return fmt::format(
          "rank {} is the cause: process {} is stopped by a signal (SIGSTOP, SIGTSTP) or a debugger; `kill -CONT {}` "
          "continues it",
          rank, activity.text, activity.text);
    case kFinished: return fmt::format("rank {} is the cause: it has finished", rank);
    case kElsewhere:
      return fmt::format(
          "rank {} is on another node (host {}): see the lines that it prints itself; if there are none, it has "
          "stopped or the network to that host is down",
          rank, activity.text);
    case kWorks: break;
  }
  return fmt::format(
      "rank {} is the cause: it {}", rank,
      activity.text.empty() ? "waits in no collective and runs no program, so it runs user code" : activity.text);
}

}  // namespace

std::string rank_list(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

std::string waiting_message(int rank, int seconds, const std::string& text, const std::vector<int>& absent) {
  return fmt::format("rank {} has waited {} s in {}; {}", rank, seconds, text, absence_text(absent));
}

std::string finished_message(int rank, const std::string& text, const std::vector<int>& finished) {
  return fmt::format("rank {} waits in {}; {} {} finished without joining", rank, text, rank_list(finished),
                     finished.size() == 1 ? "has" : "have");
}

std::string text_of_progress(const std::string& group) { return "an exchange through node memory over " + group; }

std::string timeout_message(int seconds, const std::string& text, const std::vector<int>& absent) {
  return fmt::format("waited {} s in {}, as long as {} allows; {}", seconds, text,
                     TimeLimit::current() ? "its timeout" : "TESSERA_COLLECTIVE_TIMEOUT", absence_text(absent));
}

std::string cause_text(int rank, const std::vector<int>& awaited, const ActivityOf& activity_of) {
  std::deque<int> next(awaited.begin(), awaited.end());
  std::set<int> seen(awaited.begin(), awaited.end());
  seen.insert(rank);
  std::string out;
  bool all_wait = true;
  for (std::size_t lines = 0; !next.empty(); ++lines) {
    if (lines == kMostLines) return out + fmt::format("\n  and {} more ranks", next.size());
    const int other = next.front();
    next.pop_front();
    const RankActivity activity = activity_of(other);
    out += "\n  " + line_of(other, activity);
    all_wait = all_wait && activity.state == RankActivity::State::kWaits;
    for (const int one : activity.awaited)
      if (seen.insert(one).second) next.push_back(one);
  }
  if (all_wait && !out.empty()) out += "\n  these ranks wait for each other";
  return out;
}

WaitingTime watchdog_interval() { return seconds_or_ever("TESSERA_WATCHDOG_SECONDS"); }
WaitingTime collective_timeout() {
  if (const auto limit = TimeLimit::current()) return *limit;
  return seconds_or_ever("TESSERA_COLLECTIVE_TIMEOUT");
}

}  // namespace tessera::collectives

namespace tessera {
namespace {

struct CurrentLimit {
  std::optional<std::chrono::seconds> most;
};

}  // namespace

TimeLimit::TimeLimit(std::chrono::seconds most) : previous_(current()) {
  RankContext::current().get<CurrentLimit>().most = most;
}
TimeLimit::~TimeLimit() { RankContext::current().get<CurrentLimit>().most = previous_; }
std::optional<std::chrono::seconds> TimeLimit::current() { return RankContext::current().get<CurrentLimit>().most; }

}  // namespace tessera
