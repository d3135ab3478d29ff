// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

/// --auto_shard: returns the arguments with the mesh and the shardings that find_layouts() finds fastest for the ranks of
/// this job. Rank 0 searches, with the memory of TESSERA_MEMORY_LIMIT. Collective. Error, on all ranks: no layout fits.
TrainingArguments with_best_layout(TrainingArguments arguments);

}  // namespace tessera::trainer
