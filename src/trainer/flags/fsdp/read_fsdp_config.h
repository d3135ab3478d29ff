// SPDX-License-Identifier: Apache-2.0
// The parts of FsdpConfig::from_json() that flags share.
#pragma once

#include <string>
#include <vector>

#include "flags/fsdp/mesh_sizes.h"
#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

/// Returns the names of classes that are joined by commas, without blanks around them.
std::vector<std::string> class_names(const std::string& text);
/// Sets the axes of the mesh, and what gave them.
void set_axes(const MeshSizes& sizes, FsdpConfig& config);
/// Error if two of min_num_params, transformer_layer_cls_to_wrap and auto_wrap_policy exclude each other.
void check_wrapping(const FsdpConfig& config);

}  // namespace tessera::trainer
