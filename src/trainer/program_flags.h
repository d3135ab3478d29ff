// SPDX-License-Identifier: Apache-2.0
// The flags of model and data, which differ between the programs.
#pragma once

#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

/// Binds the fields about model and data to the flags of arguments.program.
void add_program_flags(TrainingArguments& arguments, ArgumentParser& parser);
/// Checks them. The message names the flags.
void check_program_flags(const TrainingArguments& arguments);

}  // namespace tessera::trainer
