// SPDX-License-Identifier: Apache-2.0
// Identifies this build of Tessera.
#pragma once

#include <string>

namespace tessera {

/// Returns the version, followed by the linker's build id (in hexadecimal) of the program or library that contains this
/// code. Without a build id it is the version only.
std::string build_id();

}  // namespace tessera
