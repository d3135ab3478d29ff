// SPDX-License-Identifier: Apache-2.0
// The record of a run for `tessera doctor` (TESSERA_DOCTOR_FILE): JSON objects, which rank 0 appends while the program
// runs, one on each line. If the program is killed, all complete lines remain.
//
//   {"start": {"ranks": 2, …}}                                    the rank has joined its job
//   {"compilation": {"cause": "mark_step at train.cpp:41", …}}    in the step that ends with the next line `step`
//   {"step": {"seconds": 81.5, "counters": {"MarkStep": 1, …}}}   a step has ended
//   {"evaluation": {"seconds": 83.1, "counters": {…}}}            run_evaluation() has ended; its steps have no lines
//   {"end": {}}                                                   the program has ended by itself
#pragma once

#include "tessera/frontend/execution/runtime.h"

namespace tessera {

/// Records the job and the machine. Call it after the rank has joined its world.
void record_start();
/// Records the cause, the inputs, the shardings and the memory of a program.
void record_compilation(const Program& global, const CompiledProgram& compiled);
/// Waits until the step has ended, and records the time, the time of waits for the loader, and all counters. Records
/// nothing in run_evaluation().
void record_step();
/// Records that the program ends by itself, possibly with an error.
void record_end();

}  // namespace tessera
