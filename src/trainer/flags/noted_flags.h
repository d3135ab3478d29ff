// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

/// Adds a note for each flag that was chosen but has no effect beside the other flags, and for each flag that does not keep
/// what it promises beside them. Error: --learning_rate for an optimizer that computes it.
void note_flags(TrainingArguments& arguments, const ArgumentParser& parser);

}  // namespace tessera::trainer
