// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

/// The names and devices of Shardy's meshes without axes: `m0 = #sdy.mesh<[], device_ids=[3]>` is {"m0", 3}.
std::vector<std::pair<std::string, std::int64_t>> maximal_meshes_in(const std::string& text);

}  // namespace tessera
