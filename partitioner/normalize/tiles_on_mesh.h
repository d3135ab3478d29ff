// SPDX-License-Identifier: Apache-2.0
// The tiles of a sharding over another mesh, whose device order or factors may not express the sharding.
//
//   {devices=[2]1,0} over mesh<_0=2>: tiled over _0, then the devices exchange their tiles: {{0,1},{1,0}}
#pragma once

#include "tessera/ops/collectives.h"
#include "tessera/sharding/sharding.h"
#include "tessera/tensor/type.h"

namespace tessera {

struct TilesOnMesh {
  Sharding sharding;        // over the other mesh
  SourceTargetPairs moves;  // bring every tile to the devices that hold it in the given sharding; empty: none is needed
};
/// `sharding` is tiled; the meshes have equally many devices.
TilesOnMesh tiles_on_mesh(const Type& global, const Sharding& sharding, const Mesh& mesh);

}  // namespace tessera
