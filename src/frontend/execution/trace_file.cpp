// SPDX-License-Identifier: Apache-2.0
#include "execution/trace_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/json.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kEventsOfBlock = 16384;
constexpr double kMicrosecond = 1e3;  // in nanoseconds

// `"op":"dot","bytes":`
std::string arguments_of(const EventLabel& label) {
  std::string out;
  for (const auto& [name, value] : label.arguments)
    out += fmt::format("{}{}:{}", out.empty() ? "" : ",", json_quoted(name), json_quoted(value));
  if (!label.number_name.empty()) out += fmt::format("{}{}:", out.empty() ? "" : ",", json_quoted(label.number_name));
  return out;
}

}  // namespace

// Viewers treat the numbers 0 of a process and of a thread specially.
TraceText::TraceText(Timeline::Content content, int rank, std::string process,
                     std::function<std::int64_t(std::int64_t)> time_in_file)
    : content_(std::move(content)),
      process_id_(rank + 1),
      process_(std::move(process)),
      time_in_file_(std::move(time_in_file)) {
  for (const EventLabel& label : content_.labels) {
    begins_.push_back(fmt::format(R"({{"name":{},"cat":{},"ph":"X","pid":{})", json_quoted(label.name),
                                  json_quoted(label.category), process_id_));
    arguments_.push_back(arguments_of(label));
  }
}

std::int64_t TraceText::block_count() const { return 1 + ceil_div(isize(content_.events), kEventsOfBlock); }

std::string TraceText::block(std::int64_t number) const {
  if (number == 0) return names();
  const auto begin = (number - 1) * kEventsOfBlock;
  const auto end = std::min<std::int64_t>(begin + kEventsOfBlock, isize(content_.events));
  std::string out;
  for (std::int64_t i = begin; i < end; ++i) {
    if (i > begin) out += ",\n";
    append_event(out, at(content_.events, i));
  }
  return out;
}

std::string TraceText::names() const {
  const auto named = [&](std::string_view what, const std::string& thread, std::string_view argument,
                         const std::string& value) {
    return fmt::format(R"({{"name":"{}","ph":"M","pid":{}{},"args":{{"{}":{}}}}})", what, process_id_, thread, argument,
                       value);
  };
  std::string out = named("process_name", "", "name", json_quoted(process_));
  out += ",\n" + named("process_sort_index", "", "sort_index", std::to_string(process_id_));
  for (std::size_t row = 0; row < content_.rows.size(); ++row) {
    const std::string thread = fmt::format(R"(,"tid":{})", row + 1);
    out += ",\n" + named("thread_name", thread, "name", json_quoted(content_.rows[row]));
    out += ",\n" + named("thread_sort_index", thread, "sort_index", std::to_string(row + 1));
  }
  return out;
}

void TraceText::append_event(std::string& out, const Timeline::Event& event) const {
  const double begin = static_cast<double>(time_in_file_(event.begin)) / kMicrosecond;
  const double duration = static_cast<double>(event.end - event.begin) / kMicrosecond;
  fmt::format_to(std::back_inserter(out), R"({},"tid":{},"ts":{:.3f},"dur":{:.3f})", begins_[event.label],
                 event.row + 1, begin, duration);
  const std::string& arguments = arguments_[event.label];
  if (!arguments.empty()) {
    out += R"(,"args":{)" + arguments;
    if (arguments.ends_with(':')) out += std::to_string(event.number);
    out += '}';
  }
  out += '}';
}

// ---- the file -----------------------------------------------------------------------------------------------------------

TraceFile::TraceFile(const std::string& path) : path_(is_stream(path) ? path : target_of_links(path)), partial_(path_) {
  std::error_code ignored;
  if (!is_stream(path_)) {
    partial_ += ".partial";
    fs::remove(partial_, ignored);
  }
  append_file(partial_, "{\"traceEvents\":[\n");
}

TraceFile::~TraceFile() {
  std::error_code ignored;
  if (!is_complete_ && partial_ != path_) fs::remove(partial_, ignored);
}

void TraceFile::add(std::string_view block) {
  append_file(partial_, std::exchange(is_empty_, false) ? std::string(block) : ",\n" + std::string(block));
}

void TraceFile::finish(const TraceSummary& summary) {
  append_file(
      partial_,
      fmt::format("\n],\n\"displayTimeUnit\":\"ms\",\n\"otherData\":{{\"ranks\":{},\"dropped_events\":"
                  "{},\"clock_uncertainty_us\":{:.3f}}}}}\n",
                  summary.ranks, summary.dropped, static_cast<double>(summary.clock_uncertainty) / kMicrosecond));
  std::error_code error;
  if (partial_ != path_) fs::rename(partial_, path_, error);
  require(!error, "cannot write {}: {}", path_, error.message());
  is_complete_ = true;
}

}  // namespace tessera
