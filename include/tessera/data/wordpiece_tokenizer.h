// SPDX-License-Identifier: Apache-2.0
// BERT's tokenizer: words and punctuation, and pieces of words from a vocabulary, as in Hugging Face's BertTokenizer.
//
//   const WordPieceTokenizer tokenizer = WordPieceTokenizer::from_file("bert/vocab.txt");
//   const TokenizedText text = tokenizer.encode_pair("Who was Moses?", "Moses was a man.", {.max_length = 128});
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/data/tokenizer.h"

namespace tessera::data {

struct WordPieceOptions {
  bool lower_case = true;
  std::optional<bool> strip_accents{};  // nullopt: as lower_case
  bool handle_chinese_chars = true;     // each Chinese character is a word
  std::string unk_token = "[UNK]";
  std::string cls_token = "[CLS]";
  std::string sep_token = "[SEP]";
  std::string pad_token = "[PAD]";
  std::string mask_token = "[MASK]";
  std::int64_t max_word_characters = 100;  // a longer word is unknown
};

/// The tokens of a text or of a pair, with the special tokens.
struct TokenizedText {
  std::vector<std::int32_t> input_ids;
  std::vector<std::int32_t> token_type_ids;  // 1 for the second text and the [SEP] after it
};
struct EncodeOptions {
  std::int64_t max_length = 0;  // with the special tokens; a longer text is truncated. 0: any length
};

/// BERT's tokenizer with a vocabulary and options.
class WordPieceTokenizer final : public Tokenizer {
 public:
  /// Reads a vocab.txt: a piece on each line, whose number is its id; pieces that do not begin a word start with `##`.
  /// If a piece occurs twice, its id is the last one. Errors call the text `name`: it has no pieces; a special token is
  /// missing (with the nearest piece).
  static WordPieceTokenizer from_vocab(std::string_view text, std::string name, WordPieceOptions options = {});
  /// Reads a Hugging Face tokenizer.json whose model is WordPiece. Errors: those of from_vocab(); another model or
  /// normalizer; ids that are not 0, 1, 2, ….
  static WordPieceTokenizer from_tokenizer_json(std::string_view json, std::string name);
  /// Reads a vocab.txt, a tokenizer.json, or a folder with one of them. The options in a tokenizer_config.json beside a
  /// vocab.txt apply: do_lower_case, strip_accents, tokenize_chinese_chars, and the special tokens. Errors name the
  /// path.
  static WordPieceTokenizer from_file(const std::string& path);

  /// The pieces of a text, without special tokens, except those that the text contains.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const override;
  /// [CLS] text [SEP].
  [[nodiscard]] TokenizedText encode_text(std::string_view text, const EncodeOptions& options = {}) const;
  /// [CLS] first [SEP] second [SEP]. If the result exceeds max_length, tokens are removed from the end of the text that
  /// is longer at the moment. Error if max_length leaves no room for the special tokens.
  [[nodiscard]] TokenizedText encode_pair(std::string_view first, std::string_view second,
                                          const EncodeOptions& options = {}) const;
  /// Returns the words with blanks between them. Case, accents and blanks of the original text are lost.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids) const override;
  [[nodiscard]] bool keeps_text() const override { return false; }
  [[nodiscard]] int vocab_size() const override { return static_cast<int>(pieces_.size()); }
  [[nodiscard]] std::optional<std::int32_t> end_of_text() const override { return sep_id_; }
  [[nodiscard]] const std::string& name() const override { return name_; }

  /// Error if `id` is not in [0, vocab_size).
  [[nodiscard]] const std::string& piece(std::int32_t id) const;
  [[nodiscard]] std::optional<std::int32_t> id_of(std::string_view piece) const;
  [[nodiscard]] std::int32_t unk_id() const { return unk_id_; }
  [[nodiscard]] std::int32_t cls_id() const { return cls_id_; }
  [[nodiscard]] std::int32_t sep_id() const { return sep_id_; }
  [[nodiscard]] std::int32_t pad_id() const { return pad_id_; }
  [[nodiscard]] std::int32_t mask_id() const { return mask_id_; }
  /// The five special ids.
  [[nodiscard]] std::vector<std::int32_t> special_ids() const { return {unk_id_, cls_id_, sep_id_, pad_id_, mask_id_}; }
  [[nodiscard]] const WordPieceOptions& options() const { return options_; }
  /// The text of a vocab.txt with these pieces.
  [[nodiscard]] std::string vocab_text() const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  WordPieceTokenizer(std::vector<std::string> pieces, std::string name, WordPieceOptions options);
  void encode_plain(std::string_view text, std::vector<std::int32_t>& out) const;
  void encode_word(const std::string& word, std::vector<std::int32_t>& out) const;

  std::vector<std::string> pieces_;
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
  std::string name_;
  WordPieceOptions options_;
  std::int32_t unk_id_ = 0, cls_id_ = 0, sep_id_ = 0, pad_id_ = 0, mask_id_ = 0;
};

}  // namespace tessera::data
