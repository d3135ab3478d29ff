// SPDX-License-Identifier: Apache-2.0
// Token files: tokenized documents that are mapped into memory, so that a data set may be larger than the memory.
// docs/reference/file_formats.md describes the bytes.
//
//   TokenFileWriter writer("train.tokens", *tokenizer);
//   for (const std::string& text : texts) { writer.append(tokenizer->encode(text)); writer.end_document(text.size()); }
//   writer.finish();
//
//   const TokenFile file = TokenFile::open("train.tokens");
//   std::vector<std::int32_t> block(1024);
//   file.read(0, block);
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/data/tokenizer.h"
#include "tessera/sharding/placement.h"

namespace tessera::data {

/// The header of a token file.
struct TokenFileInfo {
  int token_bytes = 2;  // 2 (u16) if the vocabulary has at most 65536 ids, else 4 (u32)
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  std::int64_t vocab_size = 0;
  std::optional<std::int32_t> end_of_text;
  std::int64_t text_bytes = 0;  // the length of the texts in UTF-8
  std::string tokenizer;        // its name
  std::string vocabulary;       // Tokenizer::vocabulary()
  std::uint64_t checksum = 0;   // of all above
};

/// A token file that is mapped into memory. Copies share the mapping. A block of 64 KiB is compared with its checksum when a function first reads from it. If the block
/// is damaged, the function throws an Error. Files of version 1 have no such checksums.
class TokenFile {
 public:
  /// Maps a file. Sizes and the checksum of the header are checked; the errors name the path and the problem: not a
  /// token file, another version, damaged header, truncated, longer than the header states.
  static TokenFile open(const std::string& path);
  /// The same for bytes in memory, which must outlive the file. Errors call them `name`.
  static TokenFile parse(std::span<const std::byte> bytes, const std::string& name);
  /// True if the file exists and begins as a token file.
  static bool is_token_file(const std::string& path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const TokenFileInfo& info() const { return info_; }
  /// Fills `into` with the tokens from `start`. May be called by several threads. Error if an id is not below
  /// vocab_size.
  void read(std::int64_t start, std::span<std::int32_t> into) const;
  /// The tokens of document `i`, from 0. Error if the file's offsets do not increase there.
  [[nodiscard]] Interval document(std::int64_t i) const;
  /// Checks all ids, offsets and checksums. Reads the complete file. Errors: those of read() and document().
  void verify() const;
  /// Makes the tokenizer that the file records. It reads the vocabulary in the header, or else the file with the name
  /// of the tokenizer.
  [[nodiscard]] std::unique_ptr<Tokenizer> make_tokenizer() const;
  /// Whether the ids in the file are those of `tokenizer`. Compares the contents of the vocabularies
  /// (is_same_tokenizer()). If the file that has the vocabulary is gone, compares only sizes and ends of text.
  [[nodiscard]] bool was_written_with(const Tokenizer& tokenizer) const;

 private:
  TokenFile() = default;
  [[nodiscard]] std::int64_t document_end(std::int64_t i) const;
  void verify_blocks_of(std::span<const std::byte> part) const;

  std::string path_;
  TokenFileInfo info_;
  std::shared_ptr<const void> mapping_;                       // none for bytes in memory
  std::span<const std::byte> tokens_;                         // info_.tokens * info_.token_bytes
  std::span<const std::byte> offsets_;                        // info_.documents * 8
  std::span<const std::byte> blocks_;                         // the tokens and offsets
  std::size_t blocks_begin_ = 0;                              // in the file
  std::span<const std::byte> sums_;                           // of each block, 8 bytes; empty in version 1
  std::shared_ptr<std::vector<std::atomic<bool>>> verified_;  // for each block with a checksum
};

/// Writes a token file with little memory. The file appears under its name when it is complete.
class TokenFileWriter {
 public:
  /// Error if the file cannot be written.
  TokenFileWriter(const std::string& path, const Tokenizer& tokenizer);
  /// Deletes the temporary files unless finish() has ended.
  ~TokenFileWriter();
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;

  /// Adds tokens to the current document. Error if an id is outside the vocabulary.
  void append(std::span<const std::int32_t> tokens);
  /// Ends a document of `text_bytes` bytes of text, with the tokenizer's end of text if it has one. A document without
  /// tokens is skipped.
  void end_document(std::int64_t text_bytes);
  /// Waits until the data is on the disk, and renames the file.
  void finish();
  [[nodiscard]] const TokenFileInfo& info() const;

 private:
  class GrowingFile;
  class BlockSums;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::data
