// SPDX-License-Identifier: Apache-2.0
// The configuration file of Accelerate's launcher (--config_file), in YAML.
#pragma once

#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

/// Gives `arguments` the precision, FSDP options and sizes of the mesh of --config_file. Flags that `parser` was given win. Keys
/// about launching have no effect, with a note if they ask for something else than mpirun. Errors: an unknown key, with the
/// nearest one; another way to distribute (DEEPSPEED, MEGATRON_LM); values of another type.
void apply_accelerate_config(TrainingArguments& arguments, const ArgumentParser& parser);

}  // namespace tessera::trainer
