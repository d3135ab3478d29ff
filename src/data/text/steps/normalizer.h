// SPDX-License-Identifier: Apache-2.0
// Changes of a text before it is divided into pieces: `normalizer` of a tokenizer.json.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

/// Whether a text begins a document, or continues it after a part that was tokenized before.
enum class TextPlace { kBegin, kInside };

class Normalizer {
 public:
  /// Changes nothing.
  Normalizer() = default;
  /// Reads NFC, Prepend, Replace of a string, and Sequence. Null changes nothing. Errors, which begin with `place`: another
  /// normalizer, or Replace of a regular expression.
  static Normalizer from_json(const boost::json::value* json, const std::string& place);

  [[nodiscard]] bool changes_nothing() const { return steps_.empty(); }
  /// Whether it puts a text before each text.
  [[nodiscard]] bool prepends() const;
  /// Bytes that are not UTF-8 stay. Inside of a document, nothing is prepended.
  [[nodiscard]] std::string apply(std::string_view text, TextPlace place = TextPlace::kBegin) const;

 private:
  enum class Kind { kCompose, kPrepend, kReplace };
  struct Step {
    Kind kind;
    std::string from;  // kReplace
    std::string to;    // kPrepend and kReplace
  };
  void read_step(const boost::json::value& json, const std::string& place);

  std::vector<Step> steps_;
};

}  // namespace tessera::data
