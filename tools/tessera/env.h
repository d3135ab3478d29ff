// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace tessera::command {

/// Joins the ranks of mpirun or of CPU_NUM_DEVICES, or one rank. Rank 0 prints the text. Returns the exit code.
int on_first_rank(const std::function<std::string()>& text);

/// The build and the environment of this rank's job, one line for each fact.
std::string environment_text();

}  // namespace tessera::command
