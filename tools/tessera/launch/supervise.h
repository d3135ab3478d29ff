// SPDX-License-Identifier: Apache-2.0
// Runs a job, and starts it again from its newest checkpoint when a rank ends, without hosts that were lost.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera::command {

/// The launcher of MPI jobs.
struct Launcher {
  std::string program;             // "mpirun", "srun", or a path to one
  bool is_srun = false;            // else it is Open MPI's mpirun
  std::vector<std::string> words;  // its options
};

struct LaunchPlan {
  std::vector<std::string> program;
  Launcher launcher;
  std::int64_t ranks = 1;
  std::string hosts;                  // those that the launcher takes from a scheduler, for a message; "": none
  std::string note;                   // about an option of the launcher that the user did not give; "": none
  std::int64_t ranks_at_restart = 0;  // 0: as many
  std::int64_t min_ranks = 0;         // 0: never fewer
  std::int64_t max_restarts = 0;
  std::int64_t crash_loop = 0;            // so many starts in a row without a newer checkpoint end the job
  std::chrono::seconds grace{};           // from a signal until ranks are killed
  std::chrono::seconds retry_after{};     // before a restart, if the launcher could not start the ranks
  std::chrono::seconds host_timeout{};    // in which a host must answer before a restart; 0: hosts are not checked
  std::string output_dir;                 // of the program; "": it has none
  bool saves_only_model = false;          // --save_only_model of the program
  std::string checkpoints;                // the folder with checkpoint-N; "": unknown
  std::vector<std::string> resume_words;  // added to the program if there is a checkpoint
  bool resumes_first = false;             // the first start too
};

/// Runs the plan and returns the exit code of `tessera launch`.
int supervise(const LaunchPlan& plan);

}  // namespace tessera::command
