// SPDX-License-Identifier: Apache-2.0
// BPE. Byte-level as in GPT-2 (Radford et al., 2019): GPT-2's pattern splits the text, each piece starts as its bytes,
// and pairs are merged in the order of training. Ids: the 256 bytes in GPT-2's order, the merges in order, the end of
// text. Files may define other ids. A tokenizer.json may also describe other patterns (Qwen, Llama 3) and pieces that
// start as characters, with tokens for the bytes of rare ones (Llama 2, Mistral).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/data/tokenizer.h"

namespace tessera::data {

/// A BPE tokenizer.
class BpeTokenizer final : public Tokenizer {
 public:
  /// Trains a vocabulary: merges the most frequent pair (of equal ones, the pair with smaller ids) until there are
  /// `vocab_size` ids or no pair occurs twice. The same text gives the same vocabulary on every machine. Error unless
  /// vocab_size >= 257.
  static BpeTokenizer train(std::string_view text, int vocab_size);
  /// Reads GPT-2's vocab.bpe, or a merges.txt without vocab.json: a `#version` line, then one merge on each line.
  static BpeTokenizer from_merges(std::string_view merges, std::string name);
  /// Reads vocab.json ({"token": id}) and merges.txt of Hugging Face.
  static BpeTokenizer from_vocab_and_merges(std::string_view vocab_json, std::string_view merges, std::string name);
  /// Reads tokenizer.json of Hugging Face's tokenizers with a model of type BPE. Errors name the file and the part that
  /// is not supported: another normalizer, pre_tokenizer or post_processor, or another option of it.
  static BpeTokenizer from_tokenizer_json(std::string_view json, std::string name);

  /// Added tokens in the text, such as "<|endoftext|>", become their ids, as in Hugging Face's tokenizers.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const override;
  [[nodiscard]] std::vector<std::int32_t> encode_continued(std::string_view text) const override;
  /// If encode() puts a blank before a text, decode() removes the blank at the start of its result.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids) const override;
  [[nodiscard]] std::vector<std::int32_t> document_prefix() const override;
  [[nodiscard]] std::vector<std::int32_t> document_suffix() const override;
  [[nodiscard]] bool keeps_text() const override;
  [[nodiscard]] int vocab_size() const override { return static_cast<int>(bytes_of_id_.size()); }
  [[nodiscard]] std::optional<std::int32_t> end_of_text() const override { return end_of_text_; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::string vocabulary() const override;
  [[nodiscard]] std::map<std::string, std::string> hugging_face_files() const override;

  /// Returns the merges in the format of vocab.bpe. from_merges reads it back, with the same ids if they are in
  /// GPT-2's order.
  [[nodiscard]] std::string merges_text() const;
  /// Returns a hash of the file if its ids depend on more than tokens and merges; else "".
  [[nodiscard]] const std::string& fingerprint() const;

 private:
  struct Merge {
    std::int32_t rank = 0;
    std::int32_t id = 0;
  };
  // A list of (left token, right token) in GPT-2's notation, and the id of each token.
  struct Vocabulary;
  struct Rules;
  struct Symbol;
  struct Section;

  explicit BpeTokenizer(std::string name) : name_(std::move(name)) {}
  static BpeTokenizer build(const Vocabulary& vocabulary, std::string name);
  void set_tokens(const Vocabulary& vocabulary);
  void set_rules(const Vocabulary& vocabulary);
  [[nodiscard]] std::string text_of(const std::string& token) const;
  [[nodiscard]] std::vector<std::int32_t> encode_from(std::string_view text, bool begins_document) const;
  void encode_section(const Section& section, std::vector<std::int32_t>& out) const;
  void encode_pieces(std::string_view text, std::vector<std::int32_t>& out) const;
  void encode_piece(std::string_view piece, std::vector<std::int32_t>& out) const;
  [[nodiscard]] std::vector<std::int32_t> first_ids(std::string_view piece) const;
  void append_character(std::string_view character, std::vector<std::int32_t>& out) const;
  void merge(std::vector<Symbol>& symbols) const;

  std::string name_;
  std::array<std::int32_t, 256> id_of_byte_{};
  std::vector<std::string> bytes_of_id_;
  std::unordered_map<std::uint64_t, Merge> merges_;           // key: left id << 32 | right id
  std::vector<std::pair<std::int32_t, std::int32_t>> order_;  // the pairs by rank
  std::optional<std::int32_t> end_of_text_;
  std::shared_ptr<const Rules> rules_;
  std::unordered_map<std::string, std::int32_t> id_of_piece_;  // tokens that a piece or a character may be
};

/// The end-of-text token, as it is written in texts and vocabularies.
inline constexpr std::string_view kEndOfText = "<|endoftext|>";

}  // namespace tessera::data
