// SPDX-License-Identifier: Apache-2.0
// Which unit a parameter belongs to.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/frontend/tracing/inner.h"
#include "tessera/nn/module.h"

namespace tessera::fsdp {

inline constexpr const char* kRootUnit = "root";

/// The units below `root`: modules whose unit() is set.
std::vector<nn::NamedModule> units_below(nn::Module& root);
/// Returns the unit of each parameter: kRootUnit, or the path of one of `units`. A tied parameter belongs to the innermost
/// unit that contains all of its users, so that it is gathered once for all of them.
std::map<const TensorImpl*, std::string> assign_units(const nn::Module& root,
                                                      const std::vector<nn::NamedModule>& units);

}  // namespace tessera::fsdp
