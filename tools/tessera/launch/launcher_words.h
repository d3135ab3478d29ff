// SPDX-License-Identifier: Apache-2.0
// The command that starts the ranks of a job.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/supervise.h"

namespace tessera::command {

/// What a start uses: all hosts of the plan, or those that answer.
struct Placement {
  std::int64_t ranks = 1;
  std::vector<std::string> options;  // of the launcher
};

/// Whether mpirun prints its own messages. Without them, it does not describe the end of ranks a second time, but neither
/// why it has started nothing.
enum class LauncherMessages : std::uint8_t { kNone, kAll };

/// The words before those of the program: the launcher with its options, and the process that supervises a rank. `folder`:
/// the folder of the job.
std::vector<std::string> launcher_words(const Launcher& launcher, const Placement& on, const std::string& folder,
                                        LauncherMessages messages = LauncherMessages::kNone);

/// The words that start the program: those of the plan, without --resume_from_checkpoint and with resume_words if
/// `checkpoint` is not empty. `{checkpoint}` in them is replaced by it.
std::vector<std::string> program_words(const LaunchPlan& plan, const std::string& checkpoint);

}  // namespace tessera::command
