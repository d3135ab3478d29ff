// SPDX-License-Identifier: Apache-2.0
// The text of a mesh, `data=2,model=-1`, before the number of devices is known.
#pragma once

#include <string_view>
#include <vector>

#include "tessera/sharding/mesh.h"

namespace tessera {

/// Reads the axes of a mesh. A size of -1 stays. Error unless the text is valid for some number of devices.
std::vector<MeshAxis> mesh_axes(std::string_view text);

}  // namespace tessera
