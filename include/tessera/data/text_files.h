// SPDX-License-Identifier: Apache-2.0
// Documents in text files and JSON Lines files, read in parts.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

struct TextInput {
  std::string path;
  bool is_jsonl = false;  // one JSON object on each line, each a document; otherwise the file is one document
};

/// Returns the files that the paths name, in order: a file with the suffix .jsonl has JSON Lines, another file is text.
/// A folder stands for its *.txt and *.jsonl files at any depth, sorted by path. Errors: a path that does not exist; a
/// folder without such files.
std::vector<TextInput> find_texts(const std::vector<std::string>& paths);

/// Takes a part of a document. `ends_document`: the next part belongs to the next document.
using TakeText = std::function<void(std::string_view text, bool ends_document)>;

/// Reads the documents of a file with little memory. A text file is divided only before blanks, where GPT-2's pattern
/// also splits it, so the tokens do not depend on the parts. A document of JSON Lines is the string under `column`, in
/// one part. Errors name the path, and the line: not JSON, no such key (with the nearest), not a string.
void read_documents(const TextInput& input, const std::string& column, const TakeText& take);

}  // namespace tessera::data
