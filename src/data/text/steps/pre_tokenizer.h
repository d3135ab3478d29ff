// SPDX-License-Identifier: Apache-2.0
// The division of a normalized text into pieces, within which BPE merges: `pre_tokenizer` of a tokenizer.json.
#pragma once

#include <boost/json/value.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "normalizer.h"
#include "tessera/data/split_pattern.h"

namespace tessera::data {

/// The character that stands for a blank in vocabularies like SentencePiece's: U+2581.
inline constexpr std::string_view kBlankMark = "\xe2\x96\x81";

class PreTokenizer {
 public:
  /// GPT-2's.
  static PreTokenizer gpt2();
  /// Reads ByteLevel, Split, Digits, Metaspace and Sequence. Null gives one piece. Errors, which begin with `place`: another
  /// one, or another option than those that published models have.
  static PreTokenizer from_json(const boost::json::value* json, const std::string& place);

  /// Whether pieces are bytes in GPT-2's spelling, or else characters.
  [[nodiscard]] bool is_byte_level() const { return is_byte_level_; }
  /// Whether it has no pattern: a text is one piece.
  [[nodiscard]] bool takes_all() const { return patterns_.empty(); }
  [[nodiscard]] bool changes_text() const { return marks_blanks_; }
  /// Whether every part of a text is in a piece.
  [[nodiscard]] bool keeps_text() const { return keeps_text_; }
  /// Whether it puts a mark before a text.
  [[nodiscard]] bool prepends() const { return marks_blanks_ && prepends_ != Prepends::kNever; }
  /// Divides the pieces further.
  void add(SplitPattern pattern) { patterns_.push_back(std::move(pattern)); }

  /// Metaspace: blanks become marks, and the text gets a mark at its begin. `is_first`: it begins the document.
  [[nodiscard]] std::string changed(std::string_view text, bool is_first, TextPlace place) const;
  /// Calls `take` with each piece in order.
  void split(std::string_view text, const std::function<void(std::string_view)>& take) const {
    split_from(0, text, take);
  }

 private:
  enum class Prepends { kNever, kFirst, kAlways };
  void read_step(const boost::json::value& json, const std::string& place);
  void read_split(const boost::json::value& json, const std::string& place);
  void read_byte_level(const boost::json::value& json, const std::string& place);
  void read_metaspace(const boost::json::value& json, const std::string& place);
  void split_from(std::size_t step, std::string_view text, const std::function<void(std::string_view)>& take) const;

  std::vector<SplitPattern> patterns_;
  bool is_byte_level_ = false;
  bool marks_blanks_ = false;
  bool keeps_text_ = true;
  Prepends prepends_ = Prepends::kNever;
};

}  // namespace tessera::data
