// SPDX-License-Identifier: Apache-2.0
// Auto mode: Tessera chooses the shardings of tensors that have no annotation, such that the modelled time of a step is
// least. XLA_AUTO_SPMD=1 has the same effect without a change of the program.
//
//   use_spmd({.automatic = true});               xr.use_spmd(auto=True)
//   set_global_mesh(Mesh({{"data", 2}, {"model", 4}}));      or XLA_AUTO_SPMD_MESH=2,4
#pragma once

namespace tessera {

struct SpmdOptions {
  bool automatic = false;  // `auto` in PyTorch/XLA
};

/// Turns auto mode on for the rest of the program, if `automatic` is true. Every rank must call it at the same place.
/// Without auto mode there is nothing to enable, because every program is partitioned.
///
/// In auto mode, mark_step() and compiled functions choose the shardings of the inputs, variables and gradients that
/// have none, for the machine TESSERA_MACHINE over the global mesh. Annotations are kept. The first step that uses a
/// value chooses its sharding, and later steps keep it. Other results stay replicated. Eager mode chooses nothing.
void use_spmd(const SpmdOptions& options = {});

/// Whether auto mode is on.
[[nodiscard]] bool is_auto_spmd();

}  // namespace tessera
