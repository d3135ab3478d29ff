// SPDX-License-Identifier: Apache-2.0
// Errors: the author of a check writes the reason, the framework adds op, operands, place and rank.
//
//   require(a == b, "contracting sizes differ: lhs dim {} is {}, rhs dim {} is {}", i, a, j, b);
//
// A check costs its condition: arguments become text only when it fails.
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
  explicit InternalError(const std::string& reason);
  /// The calls that led to the error, one per line, innermost first.
  [[nodiscard]] const std::string& stack() const { return stack_; }

 private:
  std::string stack_;
};

// Arguments become text only when a check fails: hand over the value itself rather than x.str(). What has str() is shown by
// it, and a callable is called: require(ok, "groups {}", [&] { return field_text(groups); }).
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

/// The text for a person: what(); for an InternalError also the request to report it, and the stack.
std::string message_for_user(const std::exception& error);

/// The known name closest to `name` (edit distance), or "" when none is near.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

/// `; did you mean "near"?` or, where none is near, `; known: a, b, c` (not of very many): the tail of every unknown-name error.
std::string suggest_name(std::string_view name, const std::vector<std::string>& known);

}  // namespace tessera
