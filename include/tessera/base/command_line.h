// SPDX-License-Identifier: Apache-2.0
// Reads the words of a command line with Boost.Program_options. ArgumentParser and the `tessera` command use it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/base/error.h"

namespace tessera {

/// The command line is wrong. A program that catches this error exits with code 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

struct OptionSyntax {
  enum class Value { kNone, kRequired, kOptional, kMany };  // kMany: zero or more words, up to the next option
  std::string name;  // without dashes; `_` and `-` mean the same; a single letter is given as -o
  Value value = Value::kRequired;
  std::string placeholder = "a value";  // the name of the value in errors
};

struct GivenOption {
  std::string name;                  // as in OptionSyntax
  std::optional<std::string> value;  // several words are joined by blanks
};

struct CommandWords {
  std::vector<GivenOption> options;     // in order
  std::vector<std::string> positional;  // in order
};

/// Accepts `--name value`, `--name=value`, `-o value` and, for an optional value, `--name` alone. A word that is not
/// a known option may be a value even if it starts with a dash (`-1`, `-,model`). UsageError: an unknown option (with
/// the nearest name), a missing value, a value for an option that takes none.
CommandWords read_command_words(const std::vector<std::string>& words, const std::vector<OptionSyntax>& options);

/// `--name`, or `-o` for a single letter.
std::string dashed(std::string_view name);

}  // namespace tessera
