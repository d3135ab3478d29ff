// SPDX-License-Identifier: Apache-2.0
// What must hold for any text at all: it is read or refused with an Error, and what was read prints and reads back equal.
#pragma once

#include <string_view>

namespace tessera::fuzz {

/// Throws std::logic_error when a property fails. True when the text was read.
bool check_hlo_reader(std::string_view text);
bool check_sharding_reader(std::string_view text);

}  // namespace tessera::fuzz
