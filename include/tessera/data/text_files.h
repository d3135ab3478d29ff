// SPDX-License-Identifier: Apache-2.0
// Documents in text files and JSON Lines files, read in parts.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

struct TextInput {
  std::string path;       // "-": standard input, which can be read once
  bool is_jsonl = false;  // one JSON object on each line, each a document; otherwise the file is one document
};

/// Whether the path names JSON Lines: its suffix is .jsonl or .json.
bool has_json_lines(const std::string& path);
/// Returns the files that the paths name, in order: a file with the suffix .jsonl or .json has JSON Lines, another file is
/// text. A folder stands for its *.txt and *.jsonl files at any depth, sorted by path. Errors: a path that does not exist; a
/// folder without such files; a .csv or .tsv file.
std::vector<TextInput> find_texts(const std::vector<std::string>& paths);

/// Takes a part of a document. `ends_document`: the next part belongs to the next document.
using TakeText = std::function<void(std::string_view text, bool ends_document)>;

/// Reads the documents of a file with little memory. A text file is divided only before blanks, where GPT-2's pattern
/// also splits it, so the tokens do not depend on the parts. A document of JSON Lines is the string under `column`, in
/// one part. Errors name the path, and the line: not JSON, no such key (with the nearest), not a string; and those of
/// require_text().
void read_documents(const TextInput& input, const std::string& column, const TakeText& take);
/// Returns all documents of the inputs, except empty ones.
std::vector<std::string> read_all_documents(const std::vector<TextInput>& inputs, const std::string& column);

/// Checks that a file that begins with `start` may be a text. Error, with the command that makes a text of it, if it is
/// compressed (gzip, zip, zstd, xz), a token file or a Parquet file.
void require_text(std::string_view start, const std::string& path);
/// Returns the content of a text file. Errors: those of read_file() and require_text(); a .csv or .tsv file.
std::string read_text_file(const std::string& path);

}  // namespace tessera::data
