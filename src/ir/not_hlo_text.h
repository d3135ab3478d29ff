// SPDX-License-Identifier: Apache-2.0
// Files that hold a program in another form than HLO text.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// `a serialized HloModuleProto …` with what to give in its place, of content that is a known form of a program but no HLO text; else "".
std::string other_form_of_program(std::string_view content);

}  // namespace tessera
