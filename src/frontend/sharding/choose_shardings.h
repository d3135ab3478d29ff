// SPDX-License-Identifier: Apache-2.0
// Auto mode: chooses the shardings of the inputs and results of a step that have no annotation.
//
//   x = f32[4096,512] parameter(0)         x = f32[4096,512] parameter(0), sharding={data,-}
//   w = f32[512,512] parameter(1)     ->   w = f32[512,512] parameter(1), sharding={-,-}
//
// Rank 0 partitions the program with open inputs and results, and sends the shardings that the partitioner has chosen.
// The step then runs like one whose inputs and results are annotated.
#pragma once

#include <optional>

#include "execution/execute.h"

namespace tessera {

/// In auto mode, gives shardings to the undecided inputs and results of the program, to its inputs, and marks its
/// results. The inputs keep them for later steps. Collective if the rank executes programs.
void choose_shardings(ExtractedProgram& extracted, const StepResults& results, const RunReason& reason);
/// The program of the step with these shardings. Not collective, and changes neither inputs nor results.
Program with_chosen_shardings(const ExtractedProgram& extracted, const StepResults& results);

/// The mesh of XLA_AUTO_SPMD_MESH; nullopt if it is not set or auto mode is off. Errors: not a list of sizes, or of names
/// and sizes; the product of the sizes is not the number of devices.
std::optional<Mesh> automatic_mesh();

}  // namespace tessera
