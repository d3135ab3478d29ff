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

enum class SubgroupType : std::uint8_t { kReplicated, kManual, kUnreduced, kMaximal };

/// One leaf as in the text, before it is converted to axes.
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
/// Converts a sharding in axes to a leaf, normalized as in XLA: replicated dims merged and sorted, iota form if
/// possible. Omits what HLO cannot express (reductions other than sum, open dims).
HloSharding to_hlo(const Sharding& sharding);
std::string hlo_sharding_text(const HloSharding& leaf);
/// Returns HLO's text of one leaf or of a tuple, normalized as in XLA (V2 if possible, replicated dims merged).
std::string hlo_sharding_text(const Sharding& sharding);
std::string hlo_sharding_text(const Shardings& leaves, bool is_tuple);

// {mesh['x'=2,'y'=4], [{'x'}, {'y', ?}], unreduced={..}}

/// Reads XLA's form that names axes, or a tuple of such, directly to axes. `ndims`: of the leaves, needed for leaves
/// that are only `replicated`; `device_count`: needed for maximal ones.
bool is_named_sharding(std::string_view text);
std::vector<Sharding> parse_named_shardings(std::string_view text, const std::vector<int>& ndims,
                                            std::int64_t device_count);
/// Reads `mesh['x'=2,'y'=2] {'x'}`: replica groups along axes.
std::vector<std::vector<std::int64_t>> parse_mesh_groups(std::string_view text);

/// Returns a mesh that can express all the tiled shardings, if their factorings nest (with one device order). Its
/// axes are named _0, _1, …. Null if they do not nest; then each sharding that does not fit gets its own mesh.
std::optional<Mesh> common_mesh(const std::vector<HloSharding>& shardings, std::int64_t device_count);
/// Converts a leaf to axes of `mesh`; null if the mesh cannot express it.
std::optional<Sharding> to_axes(const HloSharding& sharding, const Mesh& mesh, int ndim);
/// Converts all leaves of a module. Uses the `known` meshes if they can express a sharding, else adds meshes.
std::vector<Sharding> to_axes(const std::vector<std::pair<HloSharding, int>>& shardings_and_ndims,
                              std::int64_t device_count, std::vector<Mesh>& known);

/// True if Shardy's grammar can express the shardings: tiled, without manual axes, no other reduction than sum.
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
