// SPDX-License-Identifier: Apache-2.0
// Samples in JSON Lines files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/data/source.h"
#include "tessera/data/tokenizer.h"

namespace tessera::data {

struct JsonLinesOptions {
  /// Makes `input_ids` from the text under text_column; null: the text is not used.
  std::shared_ptr<const Tokenizer> tokenizer{};
  std::string text_column = "text";
  bool end_of_text = true;  // append the tokenizer's end of text, if it has one
  /// Keys of numbers, or of lists of numbers, that become arrays of their names: s32 if all are integers, otherwise
  /// f32.
  std::vector<std::string> columns{};
};

/// Each line of JSON Lines files is a sample. get() reads the line.
class JsonLines final : public Source {
 public:
  /// `paths` are .jsonl or .json files, or folders for their *.jsonl files at any depth, sorted by path. Reads the
  /// files once to find the lines. Skips blank lines. Errors: a missing file, no lines, neither a tokenizer nor
  /// columns.
  JsonLines(const std::vector<std::string>& paths, JsonLinesOptions options);
  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(lines_.size()); }
  /// Errors name file and line: not JSON, no such key (with the nearest), neither a number nor a list of numbers.
  [[nodiscard]] Arrays get(std::int64_t i) const override;

 private:
  struct Line {
    std::int64_t file = 0;
    std::int64_t number = 0;  // from 1
    std::uint64_t start = 0;
    std::uint64_t size = 0;
  };
  void find_lines(std::int64_t file);

  std::vector<std::string> paths_;
  JsonLinesOptions options_;
  std::vector<Line> lines_;
};

/// Returns the sample of one line. Errors call it `place`.
Arrays parse_json_line(std::string_view line, const std::string& place, const JsonLinesOptions& options);

}  // namespace tessera::data
