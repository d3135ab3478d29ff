// SPDX-License-Identifier: Apache-2.0
// HLO's sharding text <-> axes. Forms: replicated, maximal, manual, unknown, V1 lists, V2 iota, last_tile_dim_replicate,
// last_tile_dims={..}, tuples; Shardy's `#sdy.sharding<@mesh, [{"x"}, {?}], …>`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/sharding/sharding.h"
#include "tessera/tensor/type.h"

namespace tessera {

enum class SubgroupType : std::uint8_t { kReplicated, kManual, kUnreduced, kMaximal };

/// One leaf as the text says it, before axes are found.
struct HloSharding {
  enum class Kind : std::uint8_t { kReplicated, kMaximal, kManual, kUnknown, kUnreduced, kTiled };
  Kind kind = Kind::kReplicated;
  std::int64_t device = -1;                  // kMaximal
  std::vector<std::int64_t> tile_dims;       // kTiled: with the subgroup dims behind the data dims
  std::vector<SubgroupType> subgroup_types;  // of the last tile dims
  std::vector<std::int64_t> devices;         // kTiled: row-major over tile_dims (expanded from V2)
  std::vector<std::int64_t> iota_reshape;    // the V2 form when the text (or canonicalisation) has one
  std::vector<std::int64_t> iota_transpose;
  std::string suffix;  // ` shard_as 1`, ` metadata={..}`, kept verbatim
  friend bool operator==(const HloSharding&, const HloSharding&) = default;
};

/// Reads `{...}`; one entry per leaf, more than one only for tuples. Errors quote the text.
std::vector<HloSharding> parse_hlo_sharding(std::string_view text);
/// The leaf a sharding in axes stands for, normalised as XLA normalises: replicated dims merged and sorted, iota form found.
/// What HLO cannot say (reductions other than sum, open dims) is left out.
HloSharding to_hlo(const Sharding& sharding);
std::string hlo_sharding_text(const HloSharding& leaf);
/// HLO's text of one leaf or of a tuple, normalised as XLA normalises (V2 where possible, replicated dims merged).
std::string hlo_sharding_text(const Sharding& sharding);
std::string hlo_sharding_text(const Shardings& leaves, bool is_tuple);

// {mesh['x'=2,'y'=4], [{'x'}, {'y', ?}], unreduced={..}}

/// XLA's form that names axes, or a tuple of such, straight in axes.
/// `ndims`: of the leaves, for those that say only `replicated`; `device_count`: for maximal ones.
bool is_named_sharding(std::string_view text);
std::vector<Sharding> parse_named_shardings(std::string_view text, const std::vector<int>& ndims,
                                            std::int64_t device_count);
/// `mesh['x'=2,'y'=2] {'x'}`: replica groups along axes.
std::vector<std::vector<std::int64_t>> parse_mesh_groups(std::string_view text);

/// A mesh that all the tiled shardings can be said on, if their factorings nest (one device order); axes are named _0, _1, ….
/// Null when they do not nest: then each that does not fit gets a mesh of its own.
std::optional<Mesh> common_mesh(const std::vector<HloSharding>& shardings, std::int64_t device_count);
/// The sharding in axes of `mesh`; null when the mesh cannot say it.
std::optional<Sharding> to_axes(const HloSharding& sharding, const Mesh& mesh, int ndim);
/// All leaves of a module at once: reuses `known` meshes where they can say a sharding, else adds to them.
std::vector<Sharding> to_axes(const std::vector<std::pair<HloSharding, int>>& shardings_and_ndims,
                              std::int64_t device_count, std::vector<Mesh>& known);

/// True when Shardy's grammar has all of it: tiled, no manual axes, no reduction but sum.
bool is_sdy_spelling(const Shardings& leaves);
/// Shardy's text of a sharding and of the meshes (`{mesh = #sdy.mesh<["data"=2, "model"=4]>}`); what xla.sdy.sharding and
/// xla.sdy.meshes and tessera.meshes carry. Partial axes print as `unreduced={..}` (other reductions than sum as `unreduced=max{..}`);
/// ours alone: `manual={..}` behind, and `<@mesh, maximal=3>`, `<@mesh, manual>`, `<@mesh, unknown>`.
std::string sdy_sharding_text(const Sharding& sharding);
std::string sdy_shardings_text(const Shardings& leaves);  // #sdy.sharding_per_value<[<@mesh, ..>, ..]> for several
std::vector<Sharding> parse_sdy_shardings(std::string_view text, const std::vector<Mesh>& meshes);
std::string sdy_meshes_text(const std::vector<Mesh>& meshes);
std::vector<Mesh> parse_sdy_meshes(std::string_view text);

}  // namespace tessera
