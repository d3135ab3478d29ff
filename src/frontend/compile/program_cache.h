// SPDX-License-Identifier: Apache-2.0
// Per-device programs on disk, in the folder TESSERA_CACHE_DIR: a process partitions a program, and later processes
// read the result. Each program is a file named by its key. A file that is damaged or from another build of Tessera is
// ignored and overwritten.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/ir/program.h"

namespace tessera {

/// Returns a hash of all inputs of partitioning: the program with its shardings and meshes, and the options.
std::size_t partition_key(const Program& global);

/// Returns the text of the per-device program if an intact file exists.
std::optional<std::string> load_partitioned(std::size_t key);
/// Writes the text for later processes. If the folder cannot be written, this logs a warning and the run continues.
void store_partitioned(std::size_t key, std::string_view text);

}  // namespace tessera
