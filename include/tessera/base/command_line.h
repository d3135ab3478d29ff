// SPDX-License-Identifier: Apache-2.0
// Reads the words of a command line with Boost.Program_options. ArgumentParser and the `tessera` command use it.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"

namespace tessera {

/// The command line is wrong: an unknown option, a value that an option does not accept, options that contradict each
/// other.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// The exit code of a program that ends with this error: 2 for a UsageError, otherwise 1.
int exit_code_of(const std::exception& error);

/// Throws the error as a UsageError, or as a FileError if it is one. If its message does not begin with `option`, the
/// message gets the prefix `OPTION: `.
[[noreturn]] void fail_for_option(std::string_view option, const Error& error);

/// Calls `read`, which reads or checks the value of the option (`--mesh`), or several options ("").
/// Its errors are thrown by fail_for_option(). An InternalError stays as it is.
template <class Read>
decltype(auto) read_option(std::string_view option, Read&& read) {
  try {
    return read();
  } catch (const InternalError&) {
    throw;
  } catch (const Error& error) {
    fail_for_option(option, error);
  }
}

/// An option that a command line may have.
struct OptionSyntax {
  enum class Value { kNone, kRequired, kOptional, kMany };  // kMany: zero or more words, up to the next option
  std::string name;  // without dashes; `_` and `-` mean the same; a single letter is given as -o
  Value value = Value::kRequired;
  std::string placeholder = "a value";  // the name of the value in errors
};

/// An option of a command line, with its value.
struct GivenOption {
  std::string name;                  // as in OptionSyntax
  std::optional<std::string> value;  // several words are joined by blanks
};

/// The words of a command line by kind.
struct CommandWords {
  std::vector<GivenOption> options;     // in order
  std::vector<std::string> positional;  // in order
  std::vector<std::string> unknown;     // options that are not known, as `--name`; each once
};

/// Accepts `--name value`, `--name=value`, `-o value` and, for an optional value, `--name` alone. A word that is not
/// a known option may be a value even if it starts with a dash (`-1`, `-,model`). UsageErrors: unknown options (all of
/// them, with the nearest names), a missing value, a value for an option that takes none.
CommandWords read_command_words(const std::vector<std::string>& words, const std::vector<OptionSyntax>& options);
/// The same, but an unknown option is no error. The words up to the next option count as its values.
CommandWords split_command_words(const std::vector<std::string>& words, const std::vector<OptionSyntax>& options);
/// Returns the reason of an error about unknown options, each with the nearest known option. There must be at least
/// one.
std::string unknown_options_text(const std::vector<std::string>& unknown, const std::vector<OptionSyntax>& options);

/// `--name`, or `-o` for a single letter.
std::string dashed(std::string_view name);

}  // namespace tessera
