// SPDX-License-Identifier: Apache-2.0
// Which build of Tessera this is.
#pragma once

#include <string>

namespace tessera {

/// The linker's id of the program or library that holds this code, in hexadecimal: another build, another id. The version alone
/// where the linker left none.
std::string build_id();

}  // namespace tessera
