// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tessera {

/// Returns the name of a variable as an identifier of programs, in which only letters, digits, '_', '.' and '-' occur.
std::string program_name(std::string name);

}  // namespace tessera
