// SPDX-License-Identifier: Apache-2.0
// Pictures of shardings: which devices hold which tile.
//
//   ┌────────────┬────────────┐
//   │    0,1     │    2,3     │
//   └────────────┴────────────┘
#pragma once

#include <string>
#include <string_view>

#include "tessera/sharding/sharding.h"
#include "tessera/tensor/type.h"

namespace tessera {

struct VisualizeOptions {
  bool color = false;  // with escape sequences of terminals: each tile in the colour of its first device
  int cell_width = 12;
  int cell_height = 3;
};

/// Draws for a terminal which devices hold which tile. Each tile is a box with the numbers of its devices; the last two
/// dims are rows and columns. If there are more dims, there is one picture for each combination of tiles of the other
/// dims. Tiles without elements are marked. Errors: the sharding is not tiled; more than kMostPictures pictures.
inline constexpr int kMostPictures = 64;
std::string visualize_sharding(const Type& type, const Sharding& sharding, const VisualizeOptions& options = {});
/// The same for HLO's text of a sharding, `{devices=[2,2]<=[4]}`, without a type: each tile is one element.
std::string visualize_sharding(std::string_view hlo_sharding, const VisualizeOptions& options = {});

/// The same as an SVG file. A tile has the colour of its first device and shows its devices and the interval of each
/// dim.
std::string sharding_svg(const Type& type, const Sharding& sharding);

/// A type and a sharding that read_sharded_type() reads from texts. `shape`: `f32[8,16]` or only `8,16`. `sharding`:
/// HLO's text, or a spec for `mesh`.
struct ShardedType {
  Type type;
  Sharding sharding;
};
ShardedType read_sharded_type(std::string_view shape, std::string_view sharding, std::string_view mesh);

}  // namespace tessera
