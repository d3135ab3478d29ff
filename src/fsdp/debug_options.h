// SPDX-License-Identifier: Apache-2.0
// FsdpDebugOptions: dummies for the forward pass, the collectives and the barriers, and lines that name units.
#pragma once

#include <string>
#include <vector>

#include "fsdp_axes.h"
#include "tessera/fsdp/options.h"
#include "tessera/nn/module.h"

namespace tessera::fsdp {

/// The value of kDummyAttribute for the parameters of a unit; "": no dummies.
std::string dummies_of(const FsdpDebugOptions& options);

/// A unit and its options.
struct DebuggedUnit {
  nn::Module* module = nullptr;
  std::string name;
  FsdpDebugOptions options;
};
/// Registers the hooks of the options. If results are wrong from now on, rank 0 warns, and the returned notes say so,
/// too.
std::vector<std::string> apply_debug_options(const std::vector<DebuggedUnit>& units, const ShardAxes& axes);

/// Replaces the results of the module by dummies of the same types, which depend on its inputs and parameters, and on
/// the parameters of all units below it. Its buffers keep their values.
void add_dummy_forward(nn::Module& module, const ShardAxes& axes);

}  // namespace tessera::fsdp
