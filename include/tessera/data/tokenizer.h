// SPDX-License-Identifier: Apache-2.0
// Text <-> token ids.
//
//   auto tokenizer = make_tokenizer("bpe:1024", read_file("kjv.txt"));
//   std::vector<std::int32_t> ids = tokenizer->encode("In the beginning");
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

/// Converts texts to token ids and back.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Accepts any bytes, also bytes that are not UTF-8. decode(encode(text)) == text if keeps_text().
  [[nodiscard]] virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  /// The tokens of a text that continues another one. They differ from those of encode() if encode() puts a blank
  /// before a text.
  [[nodiscard]] virtual std::vector<std::int32_t> encode_continued(std::string_view text) const { return encode(text); }
  /// The ids that each document has before and after those of encode(), for example the begin of text of Llama.
  [[nodiscard]] virtual std::vector<std::int32_t> document_prefix() const { return {}; }
  [[nodiscard]] virtual std::vector<std::int32_t> document_suffix() const { return {}; }
  /// The tokens of a complete document with the prefix and the suffix, but without an end of text at its end.
  [[nodiscard]] std::vector<std::int32_t> encode_document(std::string_view text) const;
  /// Whether decoding gives back each text, byte by byte.
  [[nodiscard]] virtual bool keeps_text() const { return true; }
  /// Error on an id outside [0, vocab_size).
  [[nodiscard]] virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
  /// The number of ids; they are 0 .. vocab_size-1.
  [[nodiscard]] virtual int vocab_size() const = 0;
  /// The id that ends a document, if the vocabulary has one.
  [[nodiscard]] virtual std::optional<std::int32_t> end_of_text() const = 0;
  /// The name: "bytes", "bpe:1024", or the file from which it was read.
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// The files with which Hugging Face's libraries read an equal tokenizer, by name: tokenizer.json and
  /// tokenizer_config.json. Empty if vocabulary() is.
  [[nodiscard]] virtual std::map<std::string, std::string> hugging_face_files() const { return {}; }
  /// The merges in the format of vocab.bpe, if BpeTokenizer::from_merges() can create an equal tokenizer from them;
  /// else "".
  [[nodiscard]] virtual std::string vocabulary() const { return {}; }
};

/// One id for each byte, 0..255; no end of text.
class ByteTokenizer final : public Tokenizer {
 public:
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const override;
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids) const override;
  [[nodiscard]] int vocab_size() const override { return 256; }
  [[nodiscard]] std::optional<std::int32_t> end_of_text() const override { return std::nullopt; }
  [[nodiscard]] const std::string& name() const override { return name_; }

 private:
  std::string name_ = "bytes";
};

/// Makes the tokenizer `spec`: `bytes`; `bpe:N`, a byte-level BPE of at most N ids that is trained on `training_text`;
/// otherwise a path: GPT-2's vocab.bpe, BERT's vocab.txt, a Hugging Face tokenizer.json, a merges.txt with a vocab.json
/// in the same folder, or a folder that contains one of these. Errors name the path.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& spec, std::string_view training_text);
/// Whether both give each id the same meaning: equal tokens, merges and rules. Names do not matter.
bool is_same_tokenizer(const Tokenizer& one, const Tokenizer& other);
/// Error if `spec` begins with `bpe:` and is not valid.
void check_bpe_name(const std::string& spec);

}  // namespace tessera::data
