// SPDX-License-Identifier: Apache-2.0
// Detects files that hold a program in another form than HLO text.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// Text such as `a serialized HloModuleProto …` with advice, if the content is a known form of a program but no HLO
/// text; else "".
std::string other_form_of_program(std::string_view content);

}  // namespace tessera
