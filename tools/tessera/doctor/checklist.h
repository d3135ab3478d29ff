// SPDX-License-Identifier: Apache-2.0
// The checklist of `tessera doctor`: what the record of a run shows (src/frontend/execution/doctor_record.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/json_object.h"

namespace tessera::command {

/// The facts that rank 0 has recorded.
struct Record {
  struct Compilation {
    std::int64_t step = 0;  // in which the program was compiled, from 1
    JsonObject fact;
  };
  /// The time and the counters before and after a step of the training. Between two steps may be an evaluation.
  struct Step {
    JsonObject before;  // empty for the first step
    JsonObject after;
  };
  std::vector<JsonObject> starts{};  // several if the processes did not find each other
  std::vector<Compilation> compilations{};
  std::vector<Step> steps{};
  std::int64_t evaluations = 0;
  bool has_ended = false;  // by itself: a program that was killed records no end
};
/// Reads the record up to the end of step `most_steps`, and whether the program has ended. Empty if there is no file
/// yet.
Record read_record(const std::string& path, std::int64_t most_steps);

/// How a job was started, and how it ended.
struct JobEnd {
  std::int64_t ranks = 1;           // as the user asked
  int status = 0;                   // the exit code of `tessera launch`
  bool is_stopped = false;          // by the doctor, after the last step that it checks
  int signal = 0;                   // from the user; 0: none
  double seconds_after_signal = 0;  // of the user or of the doctor, until the end
};
/// The time to end after a signal, in seconds. A program that runs longer is killed.
inline constexpr std::int64_t kGrace = 30;

struct Item {
  std::string_view name;
  std::string evidence;
  std::string_view finding = "ok";  // or "warning", "error"
  std::string advice{};             // "" if there is nothing to do
};
/// Checks a run. Without steps, there is only the item `program`.
std::vector<Item> checklist(const Record& record, const JobEnd& end);

}  // namespace tessera::command
