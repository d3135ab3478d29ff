// SPDX-License-Identifier: Apache-2.0
// Checks of --fsdp_config against the flags.
#pragma once

#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

/// Whether --fsdp_config is a text, or a file that exists on this host. check_files_on_all_ranks() reports other files.
bool can_read_fsdp_config(const TrainingArguments& arguments);
/// Reads the configuration of FSDP, if that is possible. Errors: those of FsdpConfig::of(); keys that contradict
/// --bf16, --dtype or --max_memory_per_rank. The message names keys and flags.
void check_fsdp_config(const TrainingArguments& arguments);

}  // namespace tessera::trainer
