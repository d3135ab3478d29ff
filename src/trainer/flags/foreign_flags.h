// SPDX-License-Identifier: Apache-2.0
// Flags of Hugging Face's programs that have no effect here, or do not exist.
#pragma once

#include "tessera/base/argument_parser.h"

namespace tessera::trainer {

/// Adds every flag of Hugging Face's TrainingArguments and of its example programs that `parser` does not have. To be called
/// last.
void add_foreign_flags(ArgumentParser& parser);

}  // namespace tessera::trainer
