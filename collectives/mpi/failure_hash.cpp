// SPDX-License-Identifier: Apache-2.0
#include "mpi/failure_hash.h"

#include <algorithm>
#include <string>

#include "tessera/base/text.h"

namespace tessera::collectives {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_of_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// The end of the word at `begin`. A point between two digits belongs to it, as in 1.50GB.
std::size_t end_of_word(std::string_view text, std::size_t begin) {
  std::size_t end = begin;
  const auto is_point = [&] {
    return text[end] == '.' && end > begin && is_digit(text[end - 1]) && end + 1 < text.size() &&
           is_digit(text[end + 1]);
  };
  while (end < text.size() && (is_of_word(text[end]) || is_point())) ++end;
  return end;
}

// Replaces each word with a digit: numbers, hashes, addresses, names of hosts.
std::string without_numbers(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = end_of_word(text, i);
    const std::string_view word = text.substr(i, std::max<std::size_t>(end - i, 1));
    out += std::any_of(word.begin(), word.end(), is_digit) ? "#" : word;
    i += word.size();
  }
  return out;
}

// Replaces the numbers in `rank N`.
std::string without_ranks(std::string_view text) {
  constexpr std::string_view kRank = "rank ";
  std::string out;
  for (std::size_t found = text.find(kRank); found != std::string_view::npos; found = text.find(kRank)) {
    out += text.substr(0, found + kRank.size());
    text.remove_prefix(found + kRank.size());
    out += '#';
    text.remove_prefix(std::min(text.find_first_not_of("0123456789"), text.size()));
  }
  return out += text;
}

}  // namespace

std::uint64_t failure_hash(std::string_view message) {
  constexpr std::uint64_t kHalf = 0xFFFFFFFF;
  const std::uint64_t kind = std::max<std::uint64_t>(hash_text(without_numbers(message)) & kHalf, 1);
  return kind << 32U | (hash_text(without_ranks(message)) & kHalf);
}

}  // namespace tessera::collectives
