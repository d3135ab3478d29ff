// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tessera/ir/program.h"

namespace tessera::command {

/// Returns the program with its shardings expressed over the axes of `mesh`, with the same tiles on the same devices.
/// Returns the program unchanged if the mesh cannot express one of them, or if there are manual regions.
Program on_mesh(const Program& program, const Mesh& mesh);

/// Returns `note: …` if values of a program are sharded over another mesh than `mesh`, or "".
std::string other_mesh_note(const Program& program, const Mesh& mesh);

}  // namespace tessera::command
