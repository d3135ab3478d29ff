// SPDX-License-Identifier: Apache-2.0
#include "pre_tokenizer.h"

#include "json_members.h"
#include "tessera/base/error.h"
#include "tessera/base/json.h"

namespace tessera::data {

PreTokenizer PreTokenizer::gpt2() {
  PreTokenizer out;
  out.is_byte_level_ = true;
  out.add(gpt2_pattern());
  return out;
}

PreTokenizer PreTokenizer::from_json(const boost::json::value* json, const std::string& place) {
  PreTokenizer out;
  if (json != nullptr && !json->is_null()) out.read_step(*json, place);
  return out;
}

void PreTokenizer::read_step(const boost::json::value& json, const std::string& place) {
  const std::string type = text_member(json, "type", place);
  require(!is_byte_level_ && !marks_blanks_, "{}: nothing may follow {}, got {}", place,
          is_byte_level_ ? "ByteLevel" : "Metaspace", type);
  if (type == "Sequence") {
    for (const auto& one : list_member(json, "pretokenizers", place)) read_step(one, place);
  } else if (type == "ByteLevel") {
    read_byte_level(json, place);
  } else if (type == "Split") {
    read_split(json, place);
  } else if (type == "Digits") {
    add(SplitPattern(flag_member(json, "individual_digits", false, place) ? "\\p{N}" : "\\p{N}+"));
  } else if (type == "Metaspace") {
    read_metaspace(json, place);
  } else {
    fail("{}: {} is not supported; ByteLevel, Split, Digits, Metaspace and Sequence are", place,
         type.empty() ? excerpt(json) : type);
  }
}

void PreTokenizer::read_byte_level(const boost::json::value& json, const std::string& place) {
  require(!flag_member(json, "add_prefix_space", false, place),
          "{}: ByteLevel with add_prefix_space true is not supported; it must be false", place);
  is_byte_level_ = true;
  if (flag_member(json, "use_regex", true, place)) add(gpt2_pattern());
}

void PreTokenizer::read_split(const boost::json::value& json, const std::string& place) {
  const boost::json::value* pattern = given_member(json, "pattern");
  require(pattern != nullptr, "{}: Split needs a pattern", place);
  const std::string regex = text_member(*pattern, "Regex", place);
  require(!regex.empty(), "{}: Split needs the pattern of a Regex, got {}", place, [&] { return excerpt(*pattern); });
  const bool inverts = flag_member(json, "invert", false, place);
  const bool isolates = has_text(json, "behavior", "Isolated");
  require(isolates || (inverts && has_text(json, "behavior", "Removed")),
          "{}: Split needs the behavior Isolated, or Removed with invert true, got {}", place,
          [&] { return text_member(json, "behavior", place); });
  keeps_text_ = keeps_text_ && isolates;
  try {
    add(SplitPattern(regex, isolates ? SplitPattern::Gaps::kPieces : SplitPattern::Gaps::kDropped));
  } catch (Error& error) {
    throw error.prefix(place + ": ");
  }
}

void PreTokenizer::read_metaspace(const boost::json::value& json, const std::string& place) {
  require(has_text(json, "replacement", kBlankMark), "{}: the replacement of Metaspace must be \"{}\"", place,
          kBlankMark);
  marks_blanks_ = true;
  // Older files have a flag instead of the scheme.
  std::string scheme = text_member(json, "prepend_scheme", place);
  if (scheme.empty()) scheme = flag_member(json, "add_prefix_space", true, place) ? "always" : "never";
  require(scheme == "always" || scheme == "first" || scheme == "never",
          "{}: prepend_scheme must be always, first or never, got {}", place, scheme);
  if (scheme != "never") prepends_ = scheme == "first" ? Prepends::kFirst : Prepends::kAlways;
  if (!flag_member(json, "split", true, place)) return;
  const std::string mark(kBlankMark);
  add(SplitPattern(mark + "[^" + mark + "]*|[^" + mark + "]+"));
}

std::string PreTokenizer::changed(std::string_view text, bool is_first, TextPlace place) const {
  if (!marks_blanks_) return std::string(text);
  std::string out;
  for (const char c : text) {
    if (c == ' ') {
      out += kBlankMark;
    } else {
      out += c;
    }
  }
  const bool prepends = prepends_ == Prepends::kAlways || (prepends_ == Prepends::kFirst && is_first);
  if (prepends && place == TextPlace::kBegin && !out.starts_with(kBlankMark)) out.insert(0, kBlankMark);
  return out;
}

void PreTokenizer::split_from(std::size_t step, std::string_view text,
                              const std::function<void(std::string_view)>& take) const {
  if (text.empty()) return;
  if (step == patterns_.size()) return take(text);
  patterns_[step].split(text, [&](std::string_view piece) { split_from(step + 1, piece, take); });
}

}  // namespace tessera::data
