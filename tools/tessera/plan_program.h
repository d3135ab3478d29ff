// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "command_line.h"

namespace tessera::command {

/// Chooses shardings for a program on each mesh of --devices, and prints the meshes in order of time. Returns the exit code.
int plan_program(const std::string& text, const Arguments& arguments);

/// The value of --devices: a number, or the name of a slice of TPUs, such as v4-64.
ValueCheck device_count_or_slice();
/// The number of devices that --devices means.
std::int64_t devices_of(const Arguments& arguments, std::int64_t otherwise);
/// ` (v4-64: 64 cores, 32 chips, 8 hosts)` if --devices names a slice, else "".
std::string slice_note(const Arguments& arguments);

}  // namespace tessera::command
