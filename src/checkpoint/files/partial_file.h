// SPDX-License-Identifier: Apache-2.0
// New files beside the file that they will replace, with names that no user has chosen.
#pragma once

#include <sys/types.h>

#include <string>

namespace tessera {

/// `PATH.partial-1a2b3c4d-4711-0`: a hash of the name of this host, the process, and a number.
std::string partial_file_name(const std::string& path, pid_t process, int number);
/// Creates an empty file with such a name of this process, and returns the name. Before, deletes the files that ended processes
/// of this host have left for the same path, and prints a warning. All other files stay.
std::string create_partial_file(const std::string& path);

}  // namespace tessera
