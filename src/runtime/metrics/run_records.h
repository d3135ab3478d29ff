// SPDX-License-Identifier: Apache-2.0
// Records the runs of executables: their metrics, and the events of their schedule steps in the timeline of the rank.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/timeline.h"
#include "tessera/ir/program.h"
#include "tessera/runtime/executable/executable.h"

namespace tessera {

/// The label of the event of a run.
EventLabel run_label(const std::string& name, std::size_t hash);
/// Adds a run to the metrics of the rank. `fallbacks` are the ops that reference evaluation ran.
void record_run(const RunStatistics& run, const std::vector<std::string>& fallbacks);

/// Records the steps of a plan as events: the collectives, and at level 2 of the timeline all steps.
class StepEvents {
 public:
  /// The part of a step that an event covers. An overlapped collective has a start and a done.
  enum class Part : std::uint8_t { kComplete, kStart, kDone, kWait };

  /// Adds the next step of the plan by its first instruction, which must outlive this object.
  void add_step(const Instruction& instruction, bool is_fused_group);
  /// Call it before each run: reads what is recorded now.
  void begin_run();
  /// True if the run needs the times of all steps.
  [[nodiscard]] bool covers_all_steps() const { return covers_all_; }
  /// Adds an event. `bytes` are those that the rank has received in it.
  void add(std::size_t step, Part part, std::int64_t begin, std::int64_t end, std::int64_t bytes = 0);

 private:
  struct Described {
    const Instruction* instruction = nullptr;
    bool is_fused_group = false;
    std::array<Timeline::Label, 4> labels{};  // by Part, in the timeline `known_`
  };
  [[nodiscard]] static bool is_collective(const Described& step);
  [[nodiscard]] static EventLabel label_of(const Described& step, Part part);

  std::vector<Described> steps_;
  Timeline* timeline_ = nullptr;  // null: the run is not recorded
  bool covers_all_ = false;
  std::uint64_t known_ = 0;  // the id of the timeline to which the labels belong
};

}  // namespace tessera
