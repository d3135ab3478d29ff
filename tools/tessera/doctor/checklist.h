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
  std::vector<JsonObject> starts;  // several if the processes did not find each other
  std::vector<Compilation> compilations;
  std::vector<JsonObject> steps;
};
/// Reads the record up to the end of step `most_steps`. Empty if there is no file yet.
Record read_record(const std::string& path, std::int64_t most_steps);

/// How a job was started, and how it ended.
struct JobEnd {
  std::int64_t ranks = 1;   // as the user asked
  int status = 0;           // the exit code of `tessera launch`
  bool is_stopped = false;  // by the doctor, after the last step that it checks
  int signal = 0;           // from the user; 0: none
};

struct Item {
  std::string_view name;
  std::string evidence;
  std::string_view finding = "ok";  // or "warning", "error"
  std::string advice{};             // "" if there is nothing to do
};
/// Checks a run. Without steps, there is only the item `program`.
std::vector<Item> checklist(const Record& record, const JobEnd& end);

}  // namespace tessera::command
