// SPDX-License-Identifier: Apache-2.0
// Global program with every sharding settled -> the program one device runs: local shapes, copies become collectives.
//
//   %w.1 = f32[64,256] copy(%w {data,-}) {-,-}     ->   %w.1 = f32[64,256] all-gather(%w f32[32,256]), dimensions={0}
#pragma once

#include "tessera/ir/program.h"
#include "tessera/sharding/topology.h"

namespace tessera {

/// On a local instruction that stands for a global value: the global dims, for tools that look at padding (check).
inline constexpr std::string_view kGlobalDimsAttribute = "tessera.global_dims";

struct LocalizeOptions {
  /// Leave sharding and global dims on the local instructions.
  bool keep_shardings = false;
  /// What reshards are planned for.
  Topology topology{};
  /// Sums may be shared out over axes that neither source nor target uses: fewer bytes, another buffer.
  bool idle_axes = true;
};
Program localize(const Program& program, const LocalizeOptions& options = {});

/// localize, but sums are not shared out over idle axes where a device would hold more than 1.05 of the memory for it.
Program localize_saving_memory(const Program& program, LocalizeOptions options = {});

}  // namespace tessera
