// SPDX-License-Identifier: Apache-2.0
// Compares the content of tokenizers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/data/bpe_tokenizer.h"
#include "tessera/data/wordpiece_tokenizer.h"

namespace tessera::data {
namespace {

// What the ids depend on besides the bytes of each.
std::string rules_of(const Tokenizer& tokenizer) {
  if (const auto* bpe = dynamic_cast<const BpeTokenizer*>(&tokenizer))
    return fmt::format("bpe {}\n{}", bpe->fingerprint(), bpe->merges_text());
  if (const auto* pieces = dynamic_cast<const WordPieceTokenizer*>(&tokenizer)) {
    const WordPieceOptions& options = pieces->options();
    return fmt::format("wordpiece {} {} {} {} {}\n{}", options.lower_case,
                       options.strip_accents.value_or(options.lower_case), options.handle_chinese_chars,
                       options.max_word_characters, fmt::join(pieces->special_ids(), " "), pieces->vocab_text());
  }
  return tokenizer.vocabulary();
}

}  // namespace

bool is_same_tokenizer(const Tokenizer& one, const Tokenizer& other) {
  if (one.vocab_size() != other.vocab_size() || one.end_of_text() != other.end_of_text()) return false;
  if (rules_of(one) != rules_of(other)) return false;
  for (std::int32_t id = 0; id < one.vocab_size(); ++id) {
    const std::span<const std::int32_t> ids(&id, 1);
    if (one.decode(ids) != other.decode(ids)) return false;
  }
  return true;
}

}  // namespace tessera::data
