// SPDX-License-Identifier: Apache-2.0
// A timeline of all ranks in one file, which ui.perfetto.dev and chrome://tracing show. The names are those of
// torch_xla.debug.profiler. TESSERA_TRACE_FILE=trace.json records a program from its start to its end; the functions
// below record a part of it.
//
//   profiler::start_trace("trace.json");
//   for (std::int64_t step = 10; step < 20; ++step) {
//     const profiler::StepTrace scope("train", step);
//     …
//     mark_step();
//   }
//   profiler::stop_trace();
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/base/timeline.h"

namespace tessera::profiler {

/// Records the time of its scope as an event with this name. If no trace is recorded, it costs a few nanoseconds. It
/// may be used on every thread of the rank. A thread that the program starts itself needs the context of its rank
/// (RankScope).
class Trace {
 public:
  explicit Trace(std::string_view name) : span_("scope", name) {}

 private:
  TimelineSpan span_;
};

/// The same for a step of a loop, such as an update. The event contains the number of the step.
class StepTrace {
 public:
  StepTrace(std::string_view name, std::int64_t step)
      : span_([&] { return EventLabel{.category = "step", .name = std::string(name), .number_name = "step"}; }, step) {}

 private:
  TimelineSpan span_;
};

/// The options of start_trace().
struct TraceOptions {
  /// 1: of the schedule steps, records only collectives. 2: records all schedule steps. 0: TESSERA_TRACE_LEVEL.
  int level = 0;
  /// The most events of a rank. Further events are not recorded; the file and a warning give their number.
  std::int64_t most_events = 1'000'000;
};

/// Waits for the step that mark_step() began, and then records events until stop_trace(), or until the program ends.
/// Collective. If rank 0 cannot write the file, it warns, and nothing is recorded. Error: a trace is being recorded,
/// also by TESSERA_TRACE_FILE.
void start_trace(const std::string& path, const TraceOptions& options = {});

/// Waits for the step that mark_step() began, and writes the events of all ranks to the file. Collective. Rank 0 holds
/// the text of one rank at a time, in parts of a few MB. Error: there was no start_trace().
void stop_trace();

}  // namespace tessera::profiler
