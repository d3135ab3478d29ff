// SPDX-License-Identifier: Apache-2.0
// Per-device programs on disk, in the folder TESSERA_CACHE_DIR: what one process partitioned, later ones read. A program is one
// file, named by its key; a file that is damaged, or that another build of Tessera wrote, counts as absent and is written
// anew.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/ir/program.h"

namespace tessera {

/// Of everything that partitioning looks at: the program with its shardings and meshes, and the options.
std::size_t partition_key(const Program& global);

/// The text of the per-device program, if it is there and whole.
std::optional<std::string> load_partitioned(std::size_t key);
/// Keeps it for later processes. A folder that cannot be written costs a warning, not the run.
void store_partitioned(std::size_t key, std::string_view text);

}  // namespace tessera
