// SPDX-License-Identifier: Apache-2.0
// Errors of files.
#pragma once

#include <string_view>

namespace tessera {

/// Throws `rank 3 on host node7 cannot read data/train.txt: No such file or directory` for an error number of the system.
[[noreturn]] void fail_io(std::string_view verb, std::string_view path, int error);
/// The same with a reason that is no error number.
[[noreturn]] void fail_io(std::string_view verb, std::string_view path, std::string_view reason);

}  // namespace tessera
