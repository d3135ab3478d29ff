// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/split_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "steps/utf8.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera::data {
namespace {

constexpr char kGpt2Pattern[] = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// White space as Unicode defines it. The \s of PCRE2 also has U+180E, which is none since Unicode 6.3.
constexpr std::string_view kSpaces = R"(\x09-\x0d\x{85}\p{Z})";

// Returns the pattern with these characters in place of \s and \S. A \S in brackets stays.
std::string with_unicode_spaces(std::string_view pattern) {
  std::string out;
  bool in_brackets = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (c == '\\' && next == 's') {
      out += in_brackets ? std::string(kSpaces) : fmt::format("[{}]", kSpaces);
      ++i;
    } else if (c == '\\' && next == 'S' && !in_brackets) {
      out += fmt::format("[^{}]", kSpaces);
      ++i;
    } else if (c == '\\' && next != '\0') {
      out += pattern.substr(i++, 2);
    } else {
      out += c;
      // The first character in brackets may be `]`, also after `^`.
      const bool opens = c == '[' && !in_brackets;
      if (opens && next == '^') out += pattern[++i];
      if (opens && i + 1 < pattern.size() && pattern[i + 1] == ']') out += pattern[++i];
      in_brackets = opens || (in_brackets && c != ']');
    }
  }
  return out;
}

pcre2_code* compiled(const std::string& pattern, int& error, PCRE2_SIZE& offset) {
  return pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                       PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
}

struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};
using Match = std::unique_ptr<pcre2_match_data, FreeMatch>;

std::string pcre2_reason(int error) {
  std::array<PCRE2_UCHAR, 120> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct SplitPattern::Code {
  explicit Code(pcre2_code* code) : code(code) {}
  ~Code() { pcre2_code_free(code); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  // Divides a text that is UTF-8.
  void split(pcre2_match_data* match, std::string_view text, Gaps gaps,
             const std::function<void(std::string_view)>& take) const {
    const auto take_gap = [&](std::size_t begin, std::size_t end) {
      if (gaps == Gaps::kPieces && begin < end) take(text.substr(begin, end - begin));
    };
    std::size_t start = 0;
    while (start < text.size()) {
      const auto match_with = [&](std::uint32_t options) {
        return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), start,
                           PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY | options, match, nullptr);
      };
      int count = match_with(0);
      if (count == PCRE2_ERROR_JIT_STACKLIMIT) count = match_with(PCRE2_NO_JIT);
      if (count == PCRE2_ERROR_NOMATCH) break;
      require(count > 0, "the splitting pattern fails at byte {} of a text: {}", start,
              [&] { return pcre2_reason(count); });
      const std::size_t begin = pcre2_get_ovector_pointer(match)[0];
      const std::size_t end = pcre2_get_ovector_pointer(match)[1];
      require(begin >= start && end > begin, "the splitting pattern matches the bytes {} to {} after byte {}", begin,
              end, start);
      take_gap(start, begin);
      take(text.substr(begin, end - begin));
      start = end;
    }
    take_gap(start, text.size());
  }

  pcre2_code* code;
};

SplitPattern::SplitPattern(const std::string& pattern, Gaps gaps) : gaps_(gaps) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = compiled(with_unicode_spaces(pattern), error, offset);
  if (code == nullptr) code = compiled(pattern, error, offset);  // so that the error has a place in the given pattern
  require(
      code != nullptr, "the splitting pattern {} is wrong at character {}: {}", [&] { return quote(pattern); }, offset,
      [&] { return pcre2_reason(error); });
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without a JIT the pattern is interpreted
  code_ = std::make_shared<const Code>(code);
}

void SplitPattern::split(std::string_view text, const std::function<void(std::string_view)>& take) const {
  const Match match(pcre2_match_data_create_from_pattern(code_->code, nullptr));
  ensure(match != nullptr, "PCRE2 has no memory for a match");
  while (!text.empty()) {
    const std::size_t valid = utf8_prefix(text);
    code_->split(match.get(), text.substr(0, valid), gaps_, take);
    text.remove_prefix(valid);
    const std::size_t other = not_utf8_prefix(text);
    if (other > 0) take(text.substr(0, other));
    text.remove_prefix(other);
  }
}

const SplitPattern& gpt2_pattern() {
  static const SplitPattern kSplit{kGpt2Pattern};  // threads may share compiled PCRE2 code
  return kSplit;
}

void split_like_gpt2(std::string_view text, const std::function<void(std::string_view)>& take) {
  gpt2_pattern().split(text, take);
}

}  // namespace tessera::data
