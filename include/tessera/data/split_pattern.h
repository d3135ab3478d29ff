// SPDX-License-Identifier: Apache-2.0
// Splits a text into pieces as GPT-2 does, or by another regular expression. BPE never merges across pieces.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tessera::data {

/// A regular expression that divides texts, as Hugging Face's pre-tokenizer `Split` does. Copies share the compiled
/// expression, and threads may use it at the same time.
class SplitPattern {
 public:
  /// Whether the texts between the matches are pieces, too.
  enum class Gaps { kPieces, kDropped };
  /// Letters, numbers and white space are those of Unicode. Error if the expression is wrong.
  explicit SplitPattern(const std::string& pattern, Gaps gaps = Gaps::kPieces);
  /// Calls `take` with each piece in order. Bytes that are not UTF-8 are separate pieces. Error if the expression needs
  /// too many steps for a text.
  void split(std::string_view text, const std::function<void(std::string_view)>& take) const;

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
  Gaps gaps_;
};

/// The expression of GPT-2, whose matches cover every text.
const SplitPattern& gpt2_pattern();

/// Calls `take` with each piece in order. The concatenated pieces are the text. Bytes that are not UTF-8 are separate
/// pieces.
void split_like_gpt2(std::string_view text, const std::function<void(std::string_view)>& take);

}  // namespace tessera::data
