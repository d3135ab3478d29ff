// SPDX-License-Identifier: Apache-2.0
// The process that runs one rank of `tessera launch`.
#pragma once

#include <string>
#include <vector>

namespace tessera::command {

/// Runs the program as a child, passes signals and its standard error on, and reports how it ended. The program ends when
/// this process does, and this process when the launcher does. Returns the exit code of the program, or 128 + the signal
/// that killed it. `folder`: the folder of the job.
int run_rank(const std::string& folder, const std::vector<std::string>& program, bool is_under_srun);

}  // namespace tessera::command
