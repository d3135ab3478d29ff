// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tessera/ir/program.h"

namespace tessera::command {

/// The program with its shardings said on `mesh`, whatever the text calls its axes: the same tiles on the same devices. Where the mesh cannot
/// say one of them, or the text has manual regions, the program as it is.
Program on_mesh(const Program& program, const Mesh& mesh);

/// `note: …` where values of a program lie on another mesh than `mesh`; empty if none does.
std::string other_mesh_note(const Program& program, const Mesh& mesh);

}  // namespace tessera::command
