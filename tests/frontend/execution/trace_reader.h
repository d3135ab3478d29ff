// SPDX-License-Identifier: Apache-2.0
// Reads the file of a trace, for tests.
#pragma once

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/files.h"
#include "tessera/base/json.h"

namespace tessera::testing {

struct TracedEvent {
  std::int64_t process = 0;
  std::string row;
  std::string category;
  std::string name;
  std::int64_t begin = 0;  // in nanoseconds
  std::int64_t end = 0;
  boost::json::object arguments;

  /// True if `other` lies within this event, on the same row.
  [[nodiscard]] bool contains(const TracedEvent& other) const {
    return process == other.process && row == other.row && begin <= other.begin && other.end <= end;
  }
  [[nodiscard]] std::string argument(std::string_view key) const {
    const auto* value = arguments.if_contains(key);
    return value == nullptr ? "none" : value->is_string() ? std::string(value->get_string()) : "a number";
  }
  [[nodiscard]] std::int64_t number(std::string_view key) const {
    const auto* value = arguments.if_contains(key);
    return value != nullptr && value->is_int64() ? value->get_int64() : -1;
  }
};

struct TraceReader {
  explicit TraceReader(const std::string& path) {
    const boost::json::value file = parse_json(read_file(path), path);
    other = file.at("otherData").as_object();
    for (const boost::json::value& event : file.at("traceEvents").as_array()) add(event);
  }
  /// The events of a process (rank + 1; 0: of all) with this category and name; "" stands for every name.
  [[nodiscard]] std::vector<TracedEvent> find(std::int64_t process, std::string_view category,
                                              std::string_view name = "") const {
    std::vector<TracedEvent> out;
    for (const TracedEvent& event : events)
      if ((process == 0 || event.process == process) && event.category == category &&
          (name.empty() || event.name == name))
        out.push_back(event);
    return out;
  }
  [[nodiscard]] std::int64_t number(std::string_view key) const { return other.at(key).as_int64(); }

  std::vector<std::string> processes;  // their names, in the order of the file
  std::vector<TracedEvent> events;     // in the order of the file
  boost::json::object other;           // otherData

 private:
  void add(const boost::json::value& event) {
    const std::string name(event.at("name").as_string());
    const std::int64_t process = event.at("pid").as_int64();
    if (event.at("ph").as_string() == "M") {
      if (name == "process_name") processes.emplace_back(event.at("args").at("name").as_string());
      if (name == "thread_name")
        rows_.push_back({process, event.at("tid").as_int64(), std::string(event.at("args").at("name").as_string())});
      return;
    }
    const std::int64_t thread = event.at("tid").as_int64();
    const auto row = std::find_if(rows_.begin(), rows_.end(),
                                  [&](const Row& r) { return r.process == process && r.thread == thread; });
    const std::int64_t begin = nanoseconds(event.at("ts"));
    events.push_back({process,
                      row == rows_.end() ? "unnamed" : row->name,
                      std::string(event.at("cat").as_string()),
                      name,
                      begin,
                      begin + nanoseconds(event.at("dur")),
                      {}});
    if (const auto* arguments = event.as_object().if_contains("args")) events.back().arguments = arguments->as_object();
  }

  static std::int64_t nanoseconds(const boost::json::value& microseconds) {
    return std::llround(microseconds.to_number<double>() * 1e3);
  }

  struct Row {
    std::int64_t process = 0;
    std::int64_t thread = 0;
    std::string name;
  };
  std::vector<Row> rows_;
};

}  // namespace tessera::testing
