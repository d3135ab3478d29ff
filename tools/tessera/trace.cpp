// SPDX-License-Identifier: Apache-2.0
// `tessera trace FILE.json`: where the time of a run went, from the file of TESSERA_TRACE_FILE.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "command_line.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/json.h"
#include "tessera/base/json_object.h"
#include "tessera/base/text.h"

namespace tessera::command {
namespace {

constexpr double kMillisecond = 1e3;  // in microseconds

// The events of one kind. Times are in milliseconds.
struct KindOfEvent {
  std::int64_t count = 0;
  double total = 0;
  double longest = 0;
  std::map<std::int64_t, double> of_ranks;  // the total of each rank that has such events
};

struct TraceTable {
  std::set<std::int64_t> ranks;
  std::int64_t events = 0;
  std::int64_t dropped = 0;
  double first = std::numeric_limits<double>::max();
  double last = 0;
  std::map<std::pair<std::string, std::string>, KindOfEvent> kinds;  // by category and name
};

std::string text_of(const boost::json::value& event, std::string_view key) {
  const auto* value = find_member(event, key);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

double number_of(const boost::json::value& event, std::string_view key) {
  const auto* value = find_member(event, key);
  require(value != nullptr && value->is_number(), "an event has no number \"{}\": {}", key,
          [&] { return excerpt(event); });
  const auto out = value->to_number<double>();
  constexpr double kMost = 1e15;  // 30 years in us
  require(out >= 0 && out <= kMost, "\"{}\" must be from 0 to {}: {}", key, kMost, [&] { return excerpt(event); });
  return out;
}

// Schedule steps are added up by op, because each of them has a name of its own.
std::string kind_name(const boost::json::value& event, const std::string& category) {
  const auto* arguments = find_member(event, "args");
  const std::string op = category == "op" && arguments != nullptr ? text_of(*arguments, "op") : "";
  return op.empty() ? text_of(event, "name") : op;
}

void add_event(TraceTable& table, const boost::json::value& event, std::int64_t only_rank) {
  if (text_of(event, "ph") != "X") return;
  const auto rank = static_cast<std::int64_t>(number_of(event, "pid")) - 1;
  if (only_rank >= 0 && rank != only_rank) return;
  const double begin = number_of(event, "ts") / kMillisecond;
  const double duration = number_of(event, "dur") / kMillisecond;
  const std::string category = text_of(event, "cat");
  KindOfEvent& kind = table.kinds[{category, kind_name(event, category)}];
  ++kind.count;
  kind.total += duration;
  kind.longest = std::max(kind.longest, duration);
  kind.of_ranks[rank] += duration;
  table.ranks.insert(rank);
  ++table.events;
  table.first = std::min(table.first, begin);
  table.last = std::max(table.last, begin + duration);
}

// Reads the lines of a file of any size within bounded memory.
class TraceLines {
 public:
  explicit TraceLines(const std::string& path) : path_(path), file_(path), line_(kMostBytes + 1) {}

  /// Returns the next line, which is valid until the next call, or nothing at the end. Error if it is too long.
  std::optional<std::string_view> next() {
    file_.getline(line_.data(), isize(line_));
    ++number_;
    const auto taken = static_cast<std::size_t>(file_.gcount());  // includes the line break
    require(!file_.bad(), "{}: cannot be read", [&] { return place(); });
    if (file_.eof()) return taken == 0 ? std::nullopt : std::optional(std::string_view(line_.data(), taken));
    require(
        !file_.fail(), "{}: has more than {} bytes; a trace of Tessera has one event per line", [&] { return place(); },
        kMostBytes);
    return std::string_view(line_.data(), taken - 1);
  }
  [[nodiscard]] std::string place() const { return fmt::format("{}, line {}", path_, number_); }

 private:
  // Tessera writes each event on a line of its own, with a few names and numbers: some hundred bytes. A line that is
  // longer than this limit is from a program that writes all events on one line.
  static constexpr std::size_t kMostBytes = std::size_t{1} << 20;

  const std::string& path_;
  std::ifstream file_;
  std::vector<char> line_;  // with the zero that getline() adds
  std::int64_t number_ = 0;
};

TraceTable read_trace(const std::string& path, std::int64_t only_rank) {
  check_readable(path);
  TraceLines lines(path);
  TraceTable out;
  bool is_trace = false;
  while (const auto line = lines.next()) {
    std::string_view text = trim(*line);
    is_trace = is_trace || text.starts_with(R"({"traceEvents":[)");
    if (text.starts_with(R"("otherData":)")) {
      const auto other = parse_json(fmt::format("{{{}", text), path);
      if (find_member(other.at("otherData"), "dropped_events") != nullptr)
        out.dropped = static_cast<std::int64_t>(number_of(other.at("otherData"), "dropped_events"));
    }
    if (!text.starts_with(R"({"name")")) continue;
    if (text.ends_with(',')) text.remove_suffix(1);
    const std::string place = lines.place();
    const boost::json::value event = parse_line_of_json(text, place);
    try {
      add_event(out, event, only_rank);
    } catch (Error& error) {
      throw error.prefix(place + ": ");
    }
  }
  require(is_trace,
          "{} is not a trace in the form that Tessera writes, with one event per line; give a file that "
          "TESSERA_TRACE_FILE or start_trace() wrote",
          path);
  require(out.events > 0, "{} has no events{}", path,
          [&] { return only_rank < 0 ? std::string() : fmt::format(" of rank {}", only_rank); });
  return out;
}

using Row = std::pair<std::pair<std::string, std::string>, KindOfEvent>;

// The kinds, those that took the most time first.
std::vector<Row> sorted_rows(const TraceTable& table, std::int64_t most) {
  std::vector<Row> out(table.kinds.begin(), table.kinds.end());
  std::stable_sort(out.begin(), out.end(), [](const Row& a, const Row& b) { return a.second.total > b.second.total; });
  if (isize(out) > most) out.resize(static_cast<std::size_t>(most));
  return out;
}

std::pair<std::int64_t, double> extreme(const KindOfEvent& kind, bool least) {
  const auto is_before = [&](const auto& a, const auto& b) {
    return least ? a.second < b.second : a.second > b.second;
  };
  return *std::min_element(kind.of_ranks.begin(), kind.of_ranks.end(), is_before);
}

std::string table_text(const std::string& path, const TraceTable& table, std::int64_t most) {
  const auto ranks = static_cast<double>(table.ranks.size());
  const double time = table.last - table.first;
  std::string out = fmt::format("{}: {} events of {} rank{} in {:.1f} ms{}\n\n", path, table.events, table.ranks.size(),
                                table.ranks.size() == 1 ? "" : "s", time,
                                table.dropped == 0 ? "" : fmt::format("; {} events are missing", table.dropped));
  out += fmt::format("{:<13} {:<36} {:>8} {:>10} {:>10} {:>12} {:>6}  {}\n", "category", "name", "count", "mean ms",
                     "longest ms", "ms of a rank", "share", "least and most of a rank");
  for (const auto& [names, kind] : sorted_rows(table, most)) {
    const auto [fast, least] = extreme(kind, true);
    const auto [slow, longest] = extreme(kind, false);
    out +=
        fmt::format("{:<13} {:<36} {:>8} {:>10.3f} {:>10.3f} {:>12.3f} {:>5.1f}%  {:.3f} (rank {}), {:.3f} (rank {})\n",
                    names.first, names.second, kind.count, kind.total / static_cast<double>(kind.count), kind.longest,
                    kind.total / ranks, time > 0 ? 100 * kind.total / ranks / time : 0, least, fast, longest, slow);
  }
  if (isize(table.kinds) > most) out += fmt::format("and {} more kinds of events (--top)\n", isize(table.kinds) - most);
  return out;
}

std::string json_text(const TraceTable& table, std::int64_t most) {
  std::vector<JsonObject> kinds;
  for (const auto& [names, kind] : sorted_rows(table, most)) {
    JsonObject one;
    one.set("category", names.first);
    one.set("name", names.second);
    one.set("count", kind.count);
    one.set("total_ms", kind.total);
    one.set("longest_ms", kind.longest);
    JsonObject ranks;
    for (const auto& [rank, total] : kind.of_ranks) ranks.set(std::to_string(rank), total);
    one.set("total_ms_of_ranks", ranks);
    kinds.push_back(std::move(one));
  }
  JsonObject out;
  out.set("ranks", isize(table.ranks));
  out.set("events", table.events);
  out.set("dropped_events", table.dropped);
  out.set("ms", table.last - table.first);
  out.set("kinds", kinds);
  return out.str();
}

int run_trace(const Arguments& arguments) {
  constexpr std::int64_t kRows = 40;
  const TraceTable table = read_trace(arguments.input(), arguments.number_or("rank", -1));
  const std::int64_t most = arguments.number_or("top", kRows);
  write_standard_output(arguments.has("json") ? json_text(table, most) : table_text(arguments.input(), table, most));
  return kGood;
}

}  // namespace

const Verb kTrace = {"trace",
                     "summarizes the times of the events in a trace",
                     "Prints a line for each category and name of events, the line with the most time first. \"ms of a "
                     "rank\" is the mean over\n"
                     "all ranks, and \"share\" its fraction of the time from the first to the last event. Because "
                     "events contain other events,\n"
                     "the shares do not add up to 100%.",
                     {{"rank", "N", "only the events of this rank; default: of all ranks", integer_in_range(0)},
                      {"top", "N", "the number of lines; default: 40", integer_in_range(1)},
                      {"json", "", "print the sums as JSON, with those of each rank"}},
                     run_trace,
                     "FILE.json",
                     "a file that TESSERA_TRACE_FILE or start_trace() wrote"};

}  // namespace tessera::command
