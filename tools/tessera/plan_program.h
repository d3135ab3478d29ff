// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "command_line.h"

namespace tessera::command {

/// Chooses shardings for a program on each mesh of --devices, and prints the meshes in order of time. Returns the exit code.
int plan_program(const std::string& text, const Arguments& arguments);

}  // namespace tessera::command
