// SPDX-License-Identifier: Apache-2.0
// The trace that a rank records (profiler.h): from the start to the end of the program, or of a part of it.
#pragma once

namespace tessera {

/// Begins to record if TESSERA_TRACE_FILE of rank 0 asks for it. Collective.
void begin_requested_trace();
/// Writes the trace that is being recorded, if there is one. Collective. The ranks must run no step. Unless `is_explicit`, a
/// trace without events is not written: `tessera env` does not replace the trace of a job.
void end_trace(bool is_explicit = false);
/// After an error: writes the events of this rank alone to FILE.rank-N. Does not wait for other ranks, and throws
/// nothing.
void save_own_trace() noexcept;

}  // namespace tessera
