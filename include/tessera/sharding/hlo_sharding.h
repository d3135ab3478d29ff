// SPDX-License-Identifier: Apache-2.0
// Conversion between HLO's sharding text and axes. Forms: replicated, maximal, manual, unknown, V1 lists, V2 iota,
// last_tile_dim_replicate, last_tile_dims={..}, tuples; Shardy's `#sdy.sharding<@mesh, [{"x"}, {?}], …>`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/sharding/sharding.h"
#include "tessera/tensor/type.h"

namespace tessera {

/// The meaning of a tile dim that is no dim of the array.
enum class SubgroupType : std::uint8_t { kReplicated, kManual, kUnreduced, kMaximal };

/// The sharding of one leaf as in the text, before it is converted to axes.
struct HloSharding {
  enum class Kind : std::uint8_t { kReplicated, kMaximal, kManual, kUnknown, kUnreduced, kTiled };
  Kind kind = Kind::kReplicated;
  std::int64_t device = -1;                  // kMaximal
  Dims tile_dims;                            // kTiled: the data dims, then the subgroup dims
  std::vector<SubgroupType> subgroup_types;  // of the last tile dims
  std::vector<std::int64_t> devices;         // kTiled: row-major over tile_dims (expanded from V2)
  Dims iota_reshape;                         // the V2 form, if the text or its canonical form has one
  Dims iota_transpose;
  std::string suffix;  // ` shard_as 1`, ` metadata={..}`, kept verbatim
  friend bool operator==(const HloSharding&, const HloSharding&) = default;
};

/// Reads `{...}`. Returns one entry for each leaf, more than one only for tuples. Errors quote the text.
std::vector<HloSharding> parse_hlo_sharding(std::string_view text);
/// Converts a sharding over axes to HLO's form, normalized as in XLA: replicated dims are merged and sorted, and
/// devices are an iota if possible. Omits reductions other than sum and open dims, because HLO cannot express them.
HloSharding to_hlo(const Sharding& sharding);
/// Prints a sharding as it was read.
std::string hlo_sharding_text(const HloSharding& leaf);
/// Returns HLO's text of one leaf or of a tuple, normalized as in XLA (V2 if possible, replicated dims merged).
std::string hlo_sharding_text(const Sharding& sharding);
std::string hlo_sharding_text(const Shardings& leaves, bool is_tuple);

// XLA's form that names axes: {mesh['x'=2,'y'=4], [{'x'}, {'y', ?}], unreduced={..}}

/// is_named_sharding() recognizes this form or a tuple of it; parse_named_shardings() reads it. A leaf `{replicated}`
/// does not contain its ndim, so `ndims` gives that of each leaf. Maximal leaves need `device_count`.
bool is_named_sharding(std::string_view text);
std::vector<Sharding> parse_named_shardings(std::string_view text, const std::vector<int>& ndims,
                                            std::int64_t device_count);
/// Reads replica groups along axes: `mesh['x'=2,'y'=2] {'x'}`.
std::vector<std::vector<std::int64_t>> parse_mesh_groups(std::string_view text);

/// Returns a mesh that can express all the tiled shardings. Its axes are named _0, _1, …. Null if one device order and
/// one list of axes cannot express all of them. The second to_axes() then adds meshes.
std::optional<Mesh> common_mesh(const std::vector<HloSharding>& shardings, std::int64_t device_count);
/// Converts a leaf to axes of `mesh`; null if the mesh cannot express it.
std::optional<Sharding> to_axes(const HloSharding& sharding, const Mesh& mesh, int ndim);
/// Converts the shardings of all leaves of a module. If no mesh in `known` can express a sharding, adds one to `known`.
std::vector<Sharding> to_axes(const std::vector<std::pair<HloSharding, int>>& shardings_and_ndims,
                              std::int64_t device_count, std::vector<Mesh>& known);

/// True if Shardy's grammar can express the shardings. They must be tiled, without manual axes, and partial only as
/// sums.
bool is_sdy_spelling(const Shardings& leaves);
/// Returns Shardy's text of a sharding and of the meshes (`{mesh = #sdy.mesh<["data"=2, "model"=4]>}`), as in
/// xla.sdy.sharding, xla.sdy.meshes and tessera.meshes. Partial axes are printed as `unreduced={..}`. Extensions of
/// Tessera: `unreduced=max{..}` for other reductions, `manual={..}` at the end, and `<@mesh, maximal=3>`, `<@mesh,
/// manual>`, `<@mesh, unknown>`.
std::string sdy_sharding_text(const Sharding& sharding);
std::string sdy_shardings_text(const Shardings& leaves);  // #sdy.sharding_per_value<[<@mesh, ..>, ..]> for several
std::vector<Sharding> parse_sdy_shardings(std::string_view text, const std::vector<Mesh>& meshes);
std::string sdy_meshes_text(const std::vector<Mesh>& meshes);
std::vector<Mesh> parse_sdy_meshes(std::string_view text);

}  // namespace tessera
