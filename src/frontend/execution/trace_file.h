// SPDX-License-Identifier: Apache-2.0
// The file of a trace: a JSON object whose member `traceEvents` lists events in the format of Chrome. The text of a rank
// is made and written in blocks, because it may be long.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/timeline.h"

namespace tessera {

/// The events of one rank as text.
class TraceText {
 public:
  /// `process` is the name of the rank. `time_in_file` converts a time of the content to a time of the file. Both are in
  /// nanoseconds.
  TraceText(Timeline::Content content, int rank, std::string process,
            std::function<std::int64_t(std::int64_t)> time_in_file);
  [[nodiscard]] std::int64_t block_count() const;
  [[nodiscard]] bool has_events() const { return !content_.events.empty(); }
  /// Some events, separated by commas. Block 0 has the names of the process and of its threads.
  [[nodiscard]] std::string block(std::int64_t number) const;
  [[nodiscard]] std::int64_t dropped() const { return content_.dropped; }

 private:
  [[nodiscard]] std::string names() const;
  void append_event(std::string& out, const Timeline::Event& event) const;

  Timeline::Content content_;
  int process_id_;
  std::string process_;
  std::function<std::int64_t(std::int64_t)> time_in_file_;
  std::vector<std::string> begins_;     // of the text of an event, by label
  std::vector<std::string> arguments_;  // `"op":"dot","bytes":`, by label; without a number if the label has none
};

/// What a reader of the file should know about it.
struct TraceSummary {
  std::int64_t ranks = 1;
  std::int64_t dropped = 0;            // events for which there was no room
  std::int64_t clock_uncertainty = 0;  // nanoseconds
};

/// Writes the file under another name, and renames it when it is complete. Errors name the rank and the path.
class TraceFile {
 public:
  explicit TraceFile(const std::string& path);
  /// Removes a file that is not complete.
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  void add(std::string_view block);
  void finish(const TraceSummary& summary);

 private:
  std::string path_;
  std::string partial_;  // equal to path_ for a device or a pipe
  bool is_empty_ = true;
  bool is_complete_ = false;
};

}  // namespace tessera
