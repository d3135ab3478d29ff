// SPDX-License-Identifier: Apache-2.0
// Texts for errors about values that must be equal on all ranks.
#pragma once

#include <string>
#include <vector>

namespace tessera {

/// Returns `data=2 on ranks 0, 1; fsdp=2 on rank 2` for the values of the ranks.
std::string values_by_rank(const std::vector<std::string>& values);

}  // namespace tessera
