// SPDX-License-Identifier: Apache-2.0
// Byte-level BPE as in GPT-2 (Radford et al., 2019): GPT-2's pattern splits the text, each piece starts as its bytes,
// and pairs are merged in the order of training. Ids: the 256 bytes in GPT-2's order, the merges in order, the end of
// text. Files may define other ids.
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
  /// Reads tokenizer.json of Hugging Face's tokenizers: model type BPE with byte-level splitting.
  static BpeTokenizer from_tokenizer_json(std::string_view json, std::string name);

  /// "<|endoftext|>" in the text becomes the end of text, as in Hugging Face's GPT-2 tokenizer.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const override;
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids) const override;
  [[nodiscard]] int vocab_size() const override { return static_cast<int>(bytes_of_id_.size()); }
  [[nodiscard]] std::optional<std::int32_t> end_of_text() const override { return end_of_text_; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::string vocabulary() const override;

  /// Returns the merges in the format of vocab.bpe. from_merges reads it back, with the same ids if they are in
  /// GPT-2's order.
  [[nodiscard]] std::string merges_text() const;

 private:
  struct Merge {
    std::int32_t rank = 0;
    std::int32_t id = 0;
  };
  // A list of (left token, right token) in GPT-2's notation, and the id of each token.
  struct Vocabulary;

  explicit BpeTokenizer(std::string name) : name_(std::move(name)) {}
  static BpeTokenizer build(const Vocabulary& vocabulary, std::string name);
  void encode_piece(std::string_view piece, std::vector<std::int32_t>& out) const;
  void encode_document(std::string_view text, std::vector<std::int32_t>& out) const;

  std::string name_;
  std::array<std::int32_t, 256> id_of_byte_{};
  std::vector<std::string> bytes_of_id_;
  std::unordered_map<std::uint64_t, Merge> merges_;           // key: left id << 32 | right id
  std::vector<std::pair<std::int32_t, std::int32_t>> order_;  // the pairs by rank
  std::optional<std::int32_t> end_of_text_;
};

/// The end-of-text token, as it is written in texts and vocabularies.
inline constexpr std::string_view kEndOfText = "<|endoftext|>";

}  // namespace tessera::data
