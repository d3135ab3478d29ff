// SPDX-License-Identifier: Apache-2.0
// Small helpers for text, hashing and integers that every module uses. text.h has them without `detail::`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

namespace tessera::detail {

/// Splits `text` at the separators. An empty text has no parts.
std::vector<std::string> split(std::string_view text, char separator);
/// `text` without blanks at both ends.
std::string_view trim(std::string_view text);
/// Returns the text C-escaped in double quotes. unquote is the inverse (Error if malformed).
std::string quote(std::string_view text);
std::string unquote(std::string_view text);
/// Returns `text` in a form that is safe for a terminal: control characters and bytes that are not UTF-8 become `?`;
/// line breaks and tabs stay.
std::string printable(std::string_view text);
/// Returns `text` on one line, for names from files in messages: control characters and bytes that are not UTF-8 become
/// \n, \t or \xNN.
std::string escape_controls(std::string_view text);
/// Whether all bytes belong to characters in UTF-8. Control characters are allowed.
bool is_utf8(std::string_view text);

/// Mixes `value` into `seed` (the finalizer of splitmix64). The order of calls matters.
constexpr std::size_t hash_mix(std::size_t seed, std::size_t value) {
  std::size_t x = seed * 0x9E3779B97F4A7C15ULL + value + 0x632BE59BD9B4E019ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}
/// A hash of the bytes that is equal in every process.
std::size_t hash_bytes(const void* data, std::size_t size);
inline std::size_t hash_text(std::string_view text) { return hash_bytes(text.data(), text.size()); }
/// hash_text for hash maps.
struct HashText {
  using is_avalanching = void;  // for Boost: the bits are mixed already
  std::size_t operator()(std::string_view text) const { return hash_text(text); }
};

/// The name of a class without namespaces and template arguments: `Block` of `my::Block<float>`.
std::string class_name_of(const std::type_info& type);

/// Returns a number of bytes as text: `1.25GB`, `512.00B`.
std::string format_bytes(double bytes);
/// The same, but `512B` below 1 KB.
std::string bytes_text(std::int64_t bytes);

/// ceil(a / b) for a >= 0, b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b == 0 ? 0 : 1); }
/// The product of the numbers; 1 if there are none.
std::int64_t product(std::span<const std::int64_t> numbers);

/// The size as int, because most indices are int.
template <class C>
constexpr int isize(const C& c) {
  return static_cast<int>(c.size());
}
/// `vec[i]` with a signed index, without a warning from -Wsign-conversion. Builds with _GLIBCXX_ASSERTIONS (Debug and
/// the sanitizer presets) check the index and end the process with the place of the call.
#ifdef _GLIBCXX_ASSERTIONS
template <class C, class I>
constexpr decltype(auto) at(C&& c, I i, std::source_location place = std::source_location::current()) {
  if (static_cast<std::size_t>(i) >= std::size(c)) {
    std::fprintf(stderr, "%s:%u: at(): index %lld of %zu elements\n", place.file_name(), place.line(),
                 static_cast<long long>(i), std::size(c));
    std::abort();
  }
  return c[static_cast<std::size_t>(i)];
}
#else
template <class C, class I>
constexpr decltype(auto) at(C&& c, I i) {
  return c[static_cast<std::size_t>(i)];
}
#endif

}  // namespace tessera::detail
