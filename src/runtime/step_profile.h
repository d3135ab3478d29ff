// SPDX-License-Identifier: Apache-2.0
// Where the time of a plan goes: TESSERA_PROFILE names the file.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tessera/ir/program.h"
#include "tessera/schedule/schedule.h"

namespace tessera {

/// The time of every step of one plan over all its runs. Adds its table to the file when it goes.
class StepProfile {
 public:
  StepProfile(std::string file, std::string program) : file_(std::move(file)), program_(std::move(program)) {}
  StepProfile(const StepProfile&) = delete;
  StepProfile& operator=(const StepProfile&) = delete;
  ~StepProfile();
  void add_step(StepSummary summary, double flops) { rows_.push_back({std::move(summary), flops, {}}); }
  /// Each run of a step is one sample.
  void count(std::size_t step, std::chrono::nanoseconds time) { rows_[step].nanoseconds.push_back(time.count()); }

 private:
  struct Row {
    StepSummary summary;
    double flops = 0;
    std::vector<std::int64_t> nanoseconds;
  };
  [[nodiscard]] std::string table() const;
  std::string file_;
  std::string program_;
  std::vector<Row> rows_;
};

/// Null unless TESSERA_PROFILE is set.
std::unique_ptr<StepProfile> make_step_profile(const std::string& program);

}  // namespace tessera
