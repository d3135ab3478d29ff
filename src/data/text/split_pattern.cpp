// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/split_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstddef>
#include <memory>

#include "tessera/base/error.h"

namespace tessera::data {
namespace {

constexpr char kPattern[] = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};

using Code = std::unique_ptr<pcre2_code, FreeCode>;

Code compile_pattern() {
  int error = 0;
  PCRE2_SIZE offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(kPattern), PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &error,
                          &offset, nullptr));
  ensure(code != nullptr, "PCRE2 does not accept the splitting pattern at {}: error {}", offset, error);
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // without a JIT the pattern is interpreted
  return code;
}

// Returns the length of the UTF-8 sequence at the start of `text`, or 0 if there is none. Overlong forms and surrogates
// are not UTF-8.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool surrogate = first == 0xED && byte(1) >= 0xA0;
  const bool too_high = first == 0xF4 && byte(1) >= 0x90;
  return overlong || surrogate || too_high ? 0 : length;
}

// Returns the longest prefix of `text` that is valid UTF-8.
std::size_t valid_prefix(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size()) {
    const std::size_t length = sequence_length(text.substr(end));
    if (length == 0) break;
    end += length;
  }
  return end;
}

void split_valid(const pcre2_code* code, pcre2_match_data* match, std::string_view text,
                 const std::function<void(std::string_view)>& take) {
  std::size_t start = 0;
  while (start < text.size()) {
    const int count = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), start,
                                  PCRE2_NO_UTF_CHECK | PCRE2_ANCHORED | PCRE2_NOTEMPTY, match, nullptr);
    ensure(count > 0, "the splitting pattern does not match at byte {} of a text: PCRE2 error {}", start, count);
    const std::size_t end = pcre2_get_ovector_pointer(match)[1];
    take(text.substr(start, end - start));
    start = end;
  }
}

}  // namespace

void split_like_gpt2(std::string_view text, const std::function<void(std::string_view)>& take) {
  static const Code kCode = compile_pattern();  // threads may share compiled PCRE2 code
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(pcre2_match_data_create_from_pattern(kCode.get(), nullptr));
  ensure(match != nullptr, "PCRE2 has no memory for a match");
  while (!text.empty()) {
    const std::size_t valid = valid_prefix(text);
    split_valid(kCode.get(), match.get(), text.substr(0, valid), take);
    text.remove_prefix(valid);
    std::size_t invalid = 0;
    while (invalid < text.size() && sequence_length(text.substr(invalid)) == 0) ++invalid;
    if (invalid > 0) take(text.substr(0, invalid));
    text.remove_prefix(invalid);
  }
}

}  // namespace tessera::data
