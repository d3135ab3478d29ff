// SPDX-License-Identifier: Apache-2.0
// Rows of equal length from documents of different lengths.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/data/source.h"
#include "tessera/data/token_file.h"

namespace tessera::data {

/// The documents of a token file, as `input_ids` s32[tokens of the document].
class DocumentSource final : public Source {
 public:
  explicit DocumentSource(std::shared_ptr<const TokenFile> file) : file_(std::move(file)) {}
  [[nodiscard]] std::int64_t size() const override { return file_->info().documents; }
  [[nodiscard]] Arrays get(std::int64_t i) const override;
  [[nodiscard]] std::int64_t length(std::int64_t i) const override { return file_->document(i).size(); }

 private:
  std::shared_ptr<const TokenFile> file_;
};

struct PackingOptions {
  std::int64_t length = 1024;  // of a row
  std::int32_t pad_token_id = 0;
};

/// Packs the documents of a source, in order, into rows of `length` tokens. A row ends before the first document that
/// does not fit; a document longer than a row is divided. A sample has these arrays, all s32[length]:
///   input_ids     the tokens, then pad_token_id
///   labels        the same; kIgnoredLabel for the first token of a document, which the document before must not
///                 predict, and for padding
///   segment_ids   1, 2, … for the documents of the row; 0 for padding
///   position_ids  0, 1, … in each document; 0 for padding
class PackedSource final : public Source {
 public:
  /// Reads the length of every document. Errors: length < 2; a document without tokens.
  PackedSource(std::shared_ptr<const Source> documents, PackingOptions options);
  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(rows_.size()) - 1; }
  [[nodiscard]] Arrays get(std::int64_t i) const override;
  [[nodiscard]] std::int64_t length(std::int64_t /*i*/) const override { return options_.length; }
  [[nodiscard]] std::optional<std::int64_t> fixed_length() const override { return options_.length; }

 private:
  struct Place {
    std::int64_t document = 0;
    std::int64_t token = 0;
  };
  std::shared_ptr<const Source> documents_;
  PackingOptions options_;
  std::vector<Place> rows_;  // the place at which each row begins, and the end
};

}  // namespace tessera::data
