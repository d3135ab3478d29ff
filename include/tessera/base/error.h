// SPDX-License-Identifier: Apache-2.0
// Errors: the author of a check writes the reason, the framework adds op, operands, place and rank.
//
//   require(a == b, "contracting sizes differ: lhs dim {} is {}, rhs dim {} is {}", i, a, j, b);
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

/// The caller's mistake. what() is the reason followed by one line per note.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& reason) : std::runtime_error(reason), text_(reason) {}

  /// Adds a line of context below the reason; returns *this so that `throw error.note(..)` reads well.
  Error& note(std::string_view line) {
    text_ += '\n';
    text_ += line;
    return *this;
  }
  /// Puts `prefix` before the reason, as in "dot: " + "contracting sizes differ".
  Error& prefix(std::string_view prefix) {
    text_.insert(0, prefix);
    return *this;
  }
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

/// A broken invariant of Tessera itself: our bug, never the user's.
class InternalError : public Error {
 public:
  using Error::Error;
};

/// Throws Error with the formatted reason.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws Error with the formatted reason unless `ok`.
template <class... Args>
void require(bool ok, fmt::format_string<Args...> format, Args&&... args) {
  if (!ok) [[unlikely]]
    throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws InternalError with the formatted reason unless `ok`.
template <class... Args>
void ensure(bool ok, fmt::format_string<Args...> format, Args&&... args) {
  if (!ok) [[unlikely]]
    throw InternalError(fmt::format(format, std::forward<Args>(args)...));
}

/// The known name closest to `name` (edit distance), or "" when none is near.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

/// `; did you mean "near"?` or, where none is near, `; known: a, b, c`: the tail of every unknown-name error.
std::string suggest_name(std::string_view name, const std::vector<std::string>& known);

}  // namespace tessera
