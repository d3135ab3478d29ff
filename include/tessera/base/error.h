// SPDX-License-Identifier: Apache-2.0
// Errors. A check contains only the reason. The framework adds the op, the operands, the source line and the rank.
//
//   require(a == b, "contracting sizes differ: lhs dim {} is {}, rhs dim {} is {}", i, a, j, b);
//
// A check that succeeds costs only its condition: arguments become text only if it fails.
#pragma once

#include <fmt/core.h>

#include <concepts>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tessera {

/// A mistake of the caller. what() is the reason, followed by one line for each note.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& reason) : std::runtime_error(reason), text_(reason) {}

  /// Adds a line of context below the reason. Returns *this, so that `throw error.note(..)` is possible.
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
  /// Adds the line that names the place in the user's program, and keeps it for place().
  Error& note_place(std::string_view line) {
    place_ = line;
    return note(line);
  }
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }
  /// The line given to note_place(), or "".
  [[nodiscard]] const std::string& place() const { return place_; }

 private:
  std::string text_;
  std::string place_;
};

/// A file cannot be read or written, or its content does not have the form of such files. The command line that names
/// the file may be right.
class FileError : public Error {
 public:
  using Error::Error;
};

/// A broken invariant of Tessera: a bug in Tessera, not a mistake of the user.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& reason);
  /// The calls that led to the error, one per line, innermost first.
  [[nodiscard]] const std::string& stack() const { return stack_; }

 private:
  std::string stack_;
};

// Arguments become text only if a check fails, so pass the value itself and not x.str(). If a value has str(), the text
// is value.str(). If it is callable, the text is its result:
//   require(ok, "groups {}", [&] { return field_text(groups); });
namespace detail {

template <class T>
concept HasText = requires(const T& value) {
  { value.str() } -> std::convertible_to<std::string_view>;
};

template <class T>
decltype(auto) worded(const T& value) {
  if constexpr (HasText<T>)
    return std::string(value.str());
  else if constexpr (std::is_invocable_v<const T&>)
    return std::string(value());
  else if constexpr (std::is_base_of_v<fmt::detail::view, T>)
    return T(value);  // fmt accepts views, such as those of fmt::join, only by value
  else
    return (value);
}
template <class T>
using Worded = decltype(worded(std::declval<const T&>()));

}  // namespace detail

/// Throws Error with the formatted reason.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<detail::Worded<Args>...> format, const Args&... args) {
  throw Error(fmt::format(format, detail::worded(args)...));
}

/// Throws Error with the formatted reason unless `ok`.
template <class... Args>
void require(bool ok, fmt::format_string<detail::Worded<Args>...> format, const Args&... args) {
  if (!ok) [[unlikely]]
    throw Error(fmt::format(format, detail::worded(args)...));
}

/// Throws InternalError with the formatted reason unless `ok`.
template <class... Args>
void ensure(bool ok, fmt::format_string<detail::Worded<Args>...> format, const Args&... args) {
  if (!ok) [[unlikely]]
    throw InternalError(fmt::format(format, detail::worded(args)...));
}

/// Returns the message for a user: what(). For an InternalError, the message also asks to report the bug and contains
/// the stack.
std::string message_for_user(const std::exception& error);

/// Returns the known name closest to `name` by edit distance, or "" if none is near.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

/// Returns the end of an error about an unknown name: `; did you mean "near"?`. If no known name is near, returns
/// `; known: a, b, c`, or only the number of known names if there are many.
std::string suggest_name(std::string_view name, const std::vector<std::string>& known);

}  // namespace tessera
