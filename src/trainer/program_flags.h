// SPDX-License-Identifier: Apache-2.0
// The flags of model and data, which differ between the programs.
#pragma once

#include "tessera/base/error.h"
#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

/// Binds the fields about model and data to the flags of arguments.program.
void add_program_flags(TrainingArguments& arguments, ArgumentParser& parser);
/// Checks them. The message names the flags.
void check_program_flags(const TrainingArguments& arguments);

/// Runs a check of a library, whose errors do not name the flag. `flag` precedes their messages, as in "--mesh: ".
template <class Fn>
void check_flag(const char* flag, Fn&& check) {
  try {
    check();
  } catch (Error& error) {
    throw error.prefix(flag);
  }
}

}  // namespace tessera::trainer
