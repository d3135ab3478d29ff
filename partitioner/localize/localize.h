// SPDX-License-Identifier: Apache-2.0
// Converts a global program in which all shardings are final to the program that one device runs: types become local,
// and copies become collectives.
//
//   %w.1 = f32[64,256] copy(%w {data,-}) {-,-}     ->   %w.1 = f32[64,256] all-gather(%w f32[32,256]), dimensions={0}
#pragma once

#include "tessera/ir/program.h"
#include "tessera/sharding/topology.h"

namespace tessera {

/// On a local instruction that represents a global value: the global dims, for tools that inspect padding (check).
inline constexpr std::string_view kGlobalDimsAttribute = "tessera.global_dims";

struct LocalizeOptions {
  /// Keep shardings and global dims on the local instructions.
  bool keep_shardings = false;
  /// The topology for which reshards are planned.
  Topology topology{};
  /// Sums may be sharded over axes that neither source nor target uses. Devices then receive fewer bytes, but need an
  /// additional buffer.
  bool idle_axes = true;
};
/// Converts the program. Every value must have a sharding, and the operands and results of each op must agree
/// (insert_reshards()).
Program localize(const Program& program, const LocalizeOptions& options = {});

/// Like localize, but without sums over idle axes if these increase the peak memory of a device by more than 5%.
Program localize_saving_memory(const Program& program, LocalizeOptions options = {});

}  // namespace tessera
