// SPDX-License-Identifier: Apache-2.0
// The text of a mesh, `data=2,model=-1`, before the number of devices is known.
#pragma once

#include <string_view>
#include <vector>

#include "tessera/sharding/mesh.h"

namespace tessera {

/// Reads the axes of a mesh. A size of -1 is returned as -1. Error if the text is not valid for any number of devices.
std::vector<MeshAxis> mesh_axes(std::string_view text);

}  // namespace tessera
