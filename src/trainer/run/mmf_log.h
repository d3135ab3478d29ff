// SPDX-License-Identifier: Apache-2.0
// Log lines in the form of mmf, for people and scripts that read such lines:
//
//   progress: 50/1500, train/loss_0: 2.0812, train/loss_0/avg: 2.4120, …, lr: 0.00002, ups: 7.69, time: 06s 502ms, …
#pragma once

#include <cstdint>
#include <string>

#include "tessera/trainer/trainer_state.h"

namespace tessera::trainer {

/// What mmf_log_text() shows in addition to an entry.
struct MmfStyle {
  std::string experiment = "run";  // the default of mmf
  std::int64_t last_step = 0;      // of the run
  std::int64_t iterations = 0;     // the micro-batches so far
  double mean_loss = 0;            // of all updates since the training began
  double seconds = 0;              // since the last entry
};
/// Returns the line of an entry about updates, without a line break. The loss of the entry is both the first loss
/// (`loss_0`) and the total.
std::string mmf_log_text(const LogEntry& entry, const MmfStyle& style);
/// Returns hours, minutes, seconds and milliseconds without those that are 0: 142.173 -> "02m 22s 173ms", 0 -> "0ms".
std::string mmf_duration_text(double seconds);

}  // namespace tessera::trainer
