// SPDX-License-Identifier: Apache-2.0
// Which passes over collectives run, and in which order.
#pragma once

#include "tessera/partitioner/collective_passes/collective_passes.h"
#include "tessera/passes/pipeline.h"

namespace tessera {

/// What the pipeline runs with must outlive it.
void add_collective_passes(Pipeline& pipeline, const CollectivePassOptions& options, const Topology& topology);

/// The program with its instructions in the order, of a few, in which a device holds the least at once. Computations with side effects
/// stand as they are; programs of more than moderate size too.
Program order_for_memory(const Program& program);

/// Concatenations of parts that are made for them alone become updates of one buffer, each as soon as its part is there.
Program concatenate_in_place(const Program& program);

}  // namespace tessera
