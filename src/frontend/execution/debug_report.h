// SPDX-License-Identifier: Apache-2.0
// Reports that the environment requests: PT_XLA_DEBUG (advice, analysis of compilations and executions, on rank 0),
// XLA_METRICS_FILE (reports of each step, on every rank) and TESSERA_DOCTOR_FILE (doctor_record.h). Nothing here
// communicates.
#pragma once

#include "execution/execute.h"

namespace tessera {

/// Reports, after a compilation, its reason and its size.
void report_compilation(const Program& global, const CompiledProgram& compiled);
/// Counts an execution by its reason, and reports the reason, before it starts.
void report_execution(const Program& global, const RunReason& reason);
/// Writes the metrics after each step to their files, and prints new advice.
void report_step();
/// Writes metrics and advice with the final counts when the rank's program ends. Prints errors instead of throwing
/// them.
void report_end() noexcept;

}  // namespace tessera
