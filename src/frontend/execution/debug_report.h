// SPDX-License-Identifier: Apache-2.0
// What a rank tells about itself when the environment asks for it: PT_XLA_DEBUG (advice, analysis of compilations and
// executions, on rank 0), XLA_METRICS_FILE (reports of each step, on every rank). Nothing here communicates.
#pragma once

#include "execution/execute.h"

namespace tessera {

/// After a compilation: what made it necessary and how large it is.
void report_compilation(const Program& global, const CompiledProgram& compiled);
/// Before an execution.
void report_execution(const Program& global, const RunReason& reason);
/// After each step: metrics to their file, and advice that was not given before.
void report_step();
/// When the rank's program ends: metrics and advice once more, with the final counts. Says what fails instead of throwing.
void report_end() noexcept;

}  // namespace tessera
