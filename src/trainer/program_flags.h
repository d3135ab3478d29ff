// SPDX-License-Identifier: Apache-2.0
// The flags of model and data, which differ between the programs.
#pragma once

#include <string>
#include <string_view>

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

/// The same for the flag with the arguments of an optimizer or a schedule. Some of the library's errors begin with the
/// name of the flag, without dashes.
template <class Fn>
void check_arguments_in(const std::string& name, Fn&& check) {
  try {
    check();
  } catch (Error& error) {
    const bool is_named = std::string_view(error.what()).starts_with(name + ":");
    throw error.prefix(is_named ? "--" : "--" + name + ": ");
  }
}

/// Error, which calls the flag `name`, unless weights are stored in this type.
void check_dtype(const std::string& name, const std::string& dtype);

}  // namespace tessera::trainer
