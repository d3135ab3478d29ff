// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "tessera/passes/stages.h"
#include "tessera/runtime/executable/executable.h"

namespace tessera {

/// Compiles each stage of a program and runs them one after the other. A value between stages lives until its last
/// stage, whose results may take over its memory.
std::shared_ptr<Executable> compile_stages(const Program& program, const Stages& stages, ProcessGroup& world,
                                           const ExecutableOptions& options);

}  // namespace tessera
